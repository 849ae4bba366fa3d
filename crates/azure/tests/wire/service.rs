//! Service properties and statistics.

use super::server::{AzureAnswer, AzureServer};

const RULES: &str = "<Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors>";

async fn set(server: &AzureServer, inside: &str) -> super::server::Answer {
    let body = format!("<StorageServiceProperties>{inside}</StorageServiceProperties>");
    server.ask("PUT", "?restype=service&comp=properties", &body).await
}

async fn shown(server: &AzureServer) -> String {
    server.ask("GET", "?restype=service&comp=properties", "").await.body
}

#[tokio::test]
async fn at_first_everything_is_off() {
    let server = AzureServer::open().await;
    let body = shown(&server).await;
    assert!(body.contains("<Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read><Write>false</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>"));
    assert!(body.contains("<HourMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>"));
    assert!(body.contains("<Cors/>"));
}

#[tokio::test]
async fn what_a_body_leaves_out_stays_and_what_it_holds_comes_back() {
    let server = AzureServer::open().await;
    assert_eq!(set(&server, RULES).await.status, 202);
    let logging = "<Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>true</Write><RetentionPolicy><Enabled>true</Enabled><Days>365</Days></RetentionPolicy></Logging>";
    assert_eq!(set(&server, logging).await.status, 202);
    let body = shown(&server).await;
    assert!(body.contains(logging), "{body}");
    assert!(
        body.contains("<AllowedHeaders></AllowedHeaders>") || body.contains("<AllowedHeaders/>"),
        "{body}"
    );
    assert!(body.contains("<MaxAgeInSeconds>60</MaxAgeInSeconds>"));
    assert_eq!(set(&server, "<Cors/>").await.status, 202);
    assert!(shown(&server).await.contains("<Cors/>"));
}

#[tokio::test]
async fn settings_out_of_bounds_are_refused_and_change_nothing() {
    let server = AzureServer::open().await;
    let rule = RULES.trim_start_matches("<Cors>").trim_end_matches("</Cors>");
    let six = format!("<Cors>{}</Cors>", rule.repeat(6));
    set(&server, &six).await.is_error(400, "InvalidXmlDocument");
    for days in ["0", "366", "x"] {
        let metrics = format!(
            "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy></HourMetrics>"
        );
        set(&server, &metrics).await.is_error(400, "InvalidXmlNodeValue");
    }
    server
        .ask("PUT", "?restype=service&comp=properties", "<Other/>")
        .await
        .is_error(400, "InvalidXmlDocument");
    assert!(shown(&server).await.contains("<Cors/>"));
}

#[tokio::test]
async fn statistics_are_the_secondarys() {
    let server = AzureServer::open().await;
    server.ask("GET", "?restype=service&comp=stats", "").await.is_error(400, "InvalidQueryParameterValue");
    let path = "/devstoreaccount1-secondary?restype=service&comp=stats";
    let stats = server.raw("GET", path, &[], "").await;
    assert_eq!((stats.status, stats.element("Status")), (200, "live".into()));
    assert_eq!(stats.element("LastSyncTime"), "Thu, 01 Jan 2026 00:00:00 GMT");
}
