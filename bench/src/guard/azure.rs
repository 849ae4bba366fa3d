//! Azure Queue Storage on its hot paths, each request signed with the account's key.

use std::sync::Arc;
use std::time::Duration;

use kew_azure::client::{Call, Credential, Endpoint, Stamp, read};
use kew_azure::{Account, Azure, Settings, Trust};
use kew_core::{AccountId, Clock, Timestamp};
use kew_http::{Headers, Reply, Request, header};

use super::NOW;
use super::road::{Road, message, pass, whole};
use crate::rig::{Chance, Rig};

const ACCOUNT: &str = "devstoreaccount1";
const HOST: &str = "127.0.0.1:10001";
const HIDDEN: Duration = Duration::from_secs(604_800);

/// Azure, signed.
pub struct AzureRoad {
    front_end: Azure,
    endpoint: Endpoint,
}

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        NOW
    }
}

pub fn shared_key(rig: &Rig) -> AzureRoad {
    let key = b"a key that everybody knows".to_vec();
    let account = Account { name: ACCOUNT.into(), id: AccountId(0), keys: vec![key.clone()] };
    let open =
        Settings::open(vec![account], "us-east-1".into(), Arc::new(Standing), Arc::new(Chance::default()));
    let front_end = Azure::new(rig.engine.clone(), Settings { trust: Trust::Strict, ..open });
    let base = format!("http://{HOST}/{ACCOUNT}");
    let endpoint = Endpoint::new(&base, ACCOUNT, Credential::Key(key)).expect("the base is an address");
    let road = AzureRoad { front_end, endpoint };
    pass(&rig.engine, &road.front_end, vec![road.request(&Call::create_queue("guard"))], false);
    road
}

impl AzureRoad {
    fn request(&self, call: &Call) -> Request {
        let stamp = Stamp { now: NOW, id: "7", token: None };
        let made = self.endpoint.request(call, stamp).expect("the call can be sent");
        let target = made.uri.path_and_query().expect("the address has a path").as_str();
        let mut headers = made.headers;
        headers.insert(header::HOST, HOST.parse().expect("the host is text"));
        if !made.body.is_empty() {
            headers.insert(header::CONTENT_LENGTH, made.body.len().into());
        }
        whole(
            made.method,
            target.parse().expect("the path is a request target"),
            Headers::from(&headers),
            made.body,
        )
    }
}

impl Road for AzureRoad {
    type FrontEnd = Azure;

    fn front_end(&self) -> &Azure {
        &self.front_end
    }

    fn send(&self, _: u64) -> Request {
        self.request(&Call::put_message("guard", &message()))
    }

    fn receive(&self) -> Request {
        self.request(&Call::get_messages("guard", 1, HIDDEN))
    }

    fn delete(&self, reply: &Reply) -> Request {
        let messages = read::messages(&reply.body).expect("the reply lists messages");
        self.request(&Call::delete_message("guard", &messages[0].id, &messages[0].pop_receipt))
    }
}
