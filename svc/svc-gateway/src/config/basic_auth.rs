//! `basic_auth = { … }` of routes: users with passwords, from a file.

use std::path::PathBuf;

use http::HeaderName;
use ron_kernel::config::PathSetting;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{forward_auth::is_fixed, route::Flaw};

/// Maximum length of a realm, in bytes.
const MAX_REALM: usize = 128;

/// Only users of a file may pass, with their password (RFC 7617).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BasicAuthConfig {
    /// The file of users: a line `name:hash` for each, as `omnigate password NAME` and `htpasswd -B` print it, with a
    /// hash of bcrypt or argon2id. Every reload reads it again. 1 MiB and 10,000 users at most.
    #[schemars(with = "PathSetting")]
    pub users_path: PathBuf,
    /// The realm: what the password is for, as browsers may show it.
    #[serde(default = "realm")]
    pub realm: String,
    /// A field in which servers get the user's name, such as `x-user`; empty for none. What clients send under this name is
    /// removed.
    #[serde(default)]
    pub user_header: String,
}

fn realm() -> String {
    "restricted".to_owned()
}

impl BasicAuthConfig {
    /// What is wrong with it, except for the file.
    pub(crate) fn check(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut flaw = |key: &str, message: &str| flaws.push(Flaw::new(format!("basic_auth.{key}"), message));
        if self.users_path.as_os_str().is_empty() {
            flaw("users_path", "must name a file of users");
        }
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
        if self.realm.len() > MAX_REALM || !self.realm.bytes().all(is_plain) {
            flaw("realm", "must be at most 128 signs of ASCII, without `\"` and `\\`");
        }
        let is_own = |name: &HeaderName| name.as_str().starts_with("x-omnigate-") || name == "authorization";
        let field = self.user_header.parse::<HeaderName>();
        if !self.user_header.is_empty() && !field.is_ok_and(|name| !is_fixed(&name) && !is_own(&name)) {
            flaw("user_header", "is not a field that can be set");
        }
        flaws
    }
}
