//! Service properties and statistics.

use super::house::House;

const RULES: &str = "<Cors><CorsRule><AllowedOrigins>http://a.example</AllowedOrigins><AllowedMethods>GET,PUT</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>60</MaxAgeInSeconds></CorsRule></Cors>";

async fn set(house: &House, inside: &str) -> super::house::Answer {
    let body = format!("<StorageServiceProperties>{inside}</StorageServiceProperties>");
    house.ask("PUT", "?restype=service&comp=properties", &body).await
}

async fn shown(house: &House) -> String {
    house.ask("GET", "?restype=service&comp=properties", "").await.body
}

#[tokio::test]
async fn at_first_everything_is_off() {
    let house = House::open().await;
    let body = shown(&house).await;
    assert!(body.contains("<Logging><Version>1.0</Version><Delete>false</Delete><Read>false</Read><Write>false</Write><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>"));
    assert!(body.contains("<HourMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>"));
    assert!(body.contains("<Cors/>"));
}

#[tokio::test]
async fn what_a_body_leaves_out_stays_and_what_it_holds_comes_back() {
    let house = House::open().await;
    assert_eq!(set(&house, RULES).await.status, 202);
    let logging = "<Logging><Version>1.0</Version><Delete>true</Delete><Read>false</Read><Write>true</Write><RetentionPolicy><Enabled>true</Enabled><Days>365</Days></RetentionPolicy></Logging>";
    assert_eq!(set(&house, logging).await.status, 202);
    let body = shown(&house).await;
    assert!(body.contains(logging), "{body}");
    assert!(
        body.contains("<AllowedHeaders></AllowedHeaders>") || body.contains("<AllowedHeaders/>"),
        "{body}"
    );
    assert!(body.contains("<MaxAgeInSeconds>60</MaxAgeInSeconds>"));
    assert_eq!(set(&house, "<Cors/>").await.status, 202);
    assert!(shown(&house).await.contains("<Cors/>"));
}

#[tokio::test]
async fn settings_out_of_bounds_are_refused_and_change_nothing() {
    let house = House::open().await;
    let rule = RULES.trim_start_matches("<Cors>").trim_end_matches("</Cors>");
    let six = format!("<Cors>{}</Cors>", rule.repeat(6));
    set(&house, &six).await.is_error(400, "InvalidXmlDocument");
    for days in ["0", "366", "x"] {
        let metrics = format!(
            "<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>{days}</Days></RetentionPolicy></HourMetrics>"
        );
        set(&house, &metrics).await.is_error(400, "InvalidXmlNodeValue");
    }
    house
        .ask("PUT", "?restype=service&comp=properties", "<Other/>")
        .await
        .is_error(400, "InvalidXmlDocument");
    assert!(shown(&house).await.contains("<Cors/>"));
}

#[tokio::test]
async fn statistics_are_the_secondarys() {
    let house = House::open().await;
    house.ask("GET", "?restype=service&comp=stats", "").await.is_error(400, "InvalidQueryParameterValue");
    let path = "/devstoreaccount1-secondary?restype=service&comp=stats";
    let stats = house.raw("GET", path, &[], "").await;
    assert_eq!((stats.status, stats.element("Status")), (200, "live".into()));
    assert_eq!(stats.element("LastSyncTime"), "Thu, 01 Jan 2026 00:00:00 GMT");
}
