//! What a route asks of the claims of a token.

use serde_json::{Map, Value};

/// Claims whose text is a list with blanks between: scopes, as RFC 8693 and common issuers write them. The text of any other
/// claim is one value, because people choose their own names and titles.
const BLANK_SEPARATED: [&str; 2] = ["scope", "scp"];

/// A claim that a token must have, with one of these values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRule {
    /// The claim's name, or a JSON pointer such as `/realm_access/roles` to one inside another.
    claim: String,
    /// The values, of which one is enough; never empty.
    any_of: Vec<String>,
}

impl ClaimRule {
    /// The claim must have one of these values.
    #[must_use]
    pub fn new(claim: impl Into<String>, any_of: Vec<String>) -> Self {
        Self { claim: claim.into(), any_of }
    }

    /// The claim's name, or the pointer to it.
    #[must_use]
    pub fn claim(&self) -> &str {
        &self.claim
    }

    /// Whether a token with these claims has it. A text or a number has to be the value, a list has to contain it.
    #[must_use]
    pub fn is_met(&self, claims: &Map<String, Value>) -> bool {
        match self.find(claims) {
            Some(Value::Array(items)) => items.iter().any(|item| self.accepts(item)),
            Some(Value::String(text)) if BLANK_SEPARATED.contains(&self.claim.as_str()) => {
                text.split(' ').any(|word| self.any_of.iter().any(|value| value == word))
            }
            Some(value) => self.accepts(value),
            None => false,
        }
    }

    fn find<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        let Some(path) = self.claim.strip_prefix('/') else { return claims.get(&self.claim) };
        let (first, rest) = path.split_at(path.find('/').unwrap_or(path.len()));
        claims.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(rest)
    }

    fn accepts(&self, value: &Value) -> bool {
        let is = |text: &str| self.any_of.iter().any(|value| value == text);
        match value {
            Value::String(text) => is(text),
            Value::Number(number) => is(&number.to_string()),
            Value::Bool(yes) => is(if *yes { "true" } else { "false" }),
            Value::Null | Value::Array(_) | Value::Object(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn assert_met(claim: &str, any_of: &[&str], claims: &Value, expected: bool) {
        let rule = ClaimRule::new(claim, any_of.iter().map(|value| (*value).to_owned()).collect());
        let map = claims.as_object().cloned().unwrap_or_default();
        assert_eq!(rule.is_met(&map), expected, "{claim} = {any_of:?} in {claims}");
    }

    #[test]
    fn a_text_is_the_value_and_a_list_contains_it() {
        for (claims, expected) in [
            (json!({ "role": "admin" }), true),
            (json!({ "role": ["user", "admin"] }), true),
            (json!({ "role": "Admin" }), false),
            (json!({ "role": "admin user" }), false),
            (json!({ "role": ["admin user"] }), false),
            (json!({ "role": [["admin"]] }), false),
            (json!({ "role": { "admin": true } }), false),
            (json!({ "role": null }), false),
            (json!({ "roles": "admin" }), false),
            (json!({}), false),
        ] {
            assert_met("role", &["admin"], &claims, expected);
        }
    }

    #[test]
    fn scopes_are_words_with_blanks_between() {
        for (claims, expected) in [
            (json!({ "scope": "read:items" }), true),
            (json!({ "scope": "write:items read:items" }), true),
            (json!({ "scope": ["write:items", "read:items"] }), true),
            (json!({ "scope": "read:items:all" }), false),
            (json!({ "scope": "read:item" }), false),
            (json!({ "scope": "" }), false),
        ] {
            assert_met("scope", &["read:items"], &claims, expected);
        }
        assert_met("scp", &["b"], &json!({ "scp": "a b" }), true);
    }

    #[test]
    fn numbers_and_truth_are_compared_as_they_are_written() {
        assert_met("level", &["3"], &json!({ "level": 3 }), true);
        assert_met("level", &["3"], &json!({ "level": 30 }), false);
        assert_met("email_verified", &["true"], &json!({ "email_verified": true }), true);
        assert_met("email_verified", &["true"], &json!({ "email_verified": false }), false);
    }

    #[test]
    fn one_of_several_values_is_enough() {
        assert_met("role", &["a", "b"], &json!({ "role": "b" }), true);
        assert_met("role", &["a", "b"], &json!({ "role": "c" }), false);
    }

    #[test]
    fn a_pointer_leads_into_other_claims() {
        let claims = json!({ "realm_access": { "roles": ["admin"] }, "a/b": "x", "https://a/role": "y" });
        assert_met("/realm_access/roles", &["admin"], &claims, true);
        assert_met("/realm_access/nothing", &["admin"], &claims, false);
        assert_met("/a~1b", &["x"], &claims, true);
        assert_met("https://a/role", &["y"], &claims, true);
        assert_met("/", &["x"], &claims, false);
    }
}
