//! Which tokens are believed, and how the keys to judge them are kept.

use std::{sync::Arc, time::Duration};

use crate::jwt_support::{Issuer, issuer, key_set};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use proptest::prelude::*;
use ron_kernel::Clock;
use serde_json::{Value, json};
use svc_gateway::{
    AuthConfig, GatewayConfig,
    jwt::{Claims, IssuerPolicy, JwtError, MAX_TOKEN_BYTES, Policy, Verifier},
};
use types::{Moment, Reason, Refusal};

const ISSUER: &str = "https://id.example";

fn policy() -> Policy {
    Policy {
        issuers: vec![IssuerPolicy {
            issuer: ISSUER.into(),
            audience: "gateway".into(),
            leeway: Duration::from_secs(30),
        }],
        tenant_claims: vec!["org".into(), "sub".into()],
        ..Policy::default()
    }
}

/// A verifier that believes these issuers.
fn verifier(issuers: &[&Issuer]) -> Verifier {
    verifier_at(issuers, Clock::start())
}

fn verifier_at(issuers: &[&Issuer], clock: Clock) -> Verifier {
    let verifier = Verifier::new(policy(), clock);
    verifier.set_keys(ISSUER, &key_set(issuers));
    verifier
}

/// Claims that are good for an hour, with these changed; `null` takes one away.
fn claims(changes: &Value) -> Value {
    let mut claims = json!({
        "iss": "https://id.example", "aud": "gateway", "sub": "acme", "exp": unix() + 3600,
    });
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn unix() -> u64 {
    Clock::start().unix().as_secs()
}

fn tenant(claims: &Claims) -> Option<&str> {
    claims.tenant.as_ref().map(types::ActorId::as_str)
}

/// What becomes of a token with these claims.
fn judged(changes: &Value) -> Result<Arc<Claims>, JwtError> {
    let issuer = issuer(Algorithm::EdDSA);
    verifier(&[issuer]).verify(&issuer.token(&claims(changes)))
}

#[test]
fn a_token_of_each_spoken_algorithm_is_believed() {
    let rsa = issuer(Algorithm::RS256);
    let issuers = [rsa, issuer(Algorithm::ES256), issuer(Algorithm::EdDSA)];
    let verifier = verifier(&issuers);
    for issuer in issuers {
        let believed = verifier.verify(&issuer.token(&claims(&json!({})))).unwrap();
        assert_eq!(tenant(&believed), Some("acme"));
    }
    // The same key may sign with padding of another kind, if it does not say that it may not.
    let pss = rsa.token_with(&rsa.header(Algorithm::PS256), &claims(&json!({})));
    assert!(verifier.verify(&pss).is_ok());
    assert_eq!(verifier.verify(&pss).unwrap().tenant.as_ref().map(ToString::to_string), Some("acme".into()));
}

#[test]
fn a_key_that_names_its_algorithm_is_used_with_no_other() {
    let rsa = issuer(Algorithm::RS256).saying_its_algorithm();
    let verifier = verifier(&[&rsa]);
    assert!(verifier.verify(&rsa.token(&claims(&json!({})))).is_ok());
    let pss = rsa.token_with(&rsa.header(Algorithm::PS256), &claims(&json!({})));
    assert_eq!(verifier.verify(&pss), Err(JwtError::Algorithm));
}

#[test]
fn a_public_key_used_as_a_secret_is_not_believed() {
    for issuer in [issuer(Algorithm::RS256), issuer(Algorithm::ES256), issuer(Algorithm::EdDSA)] {
        let verifier = verifier(&[issuer]);
        for secret in issuer.public_in_all_forms() {
            for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
                let header = issuer.header(algorithm);
                let key = EncodingKey::from_secret(&secret);
                let forged = jsonwebtoken::encode(&header, &claims(&json!({})), &key).unwrap();
                assert_eq!(verifier.verify(&forged), Err(JwtError::Algorithm));
            }
        }
    }
}

#[test]
fn an_unsigned_token_is_not_believed() {
    let issuer = issuer(Algorithm::EdDSA);
    let verifier = verifier(&[issuer]);
    for alg in ["none", "None", "NONE", ""] {
        let head =
            crate::jwt_support::base64url(json!({ "alg": alg, "kid": issuer.kid() }).to_string().as_bytes());
        let body = crate::jwt_support::base64url(claims(&json!({})).to_string().as_bytes());
        assert_eq!(verifier.verify(&format!("{head}.{body}.")), Err(JwtError::Malformed), "{alg}");
    }
    let signed = issuer.token(&claims(&json!({})));
    let stripped = &signed[..=signed.rfind('.').unwrap()];
    assert_eq!(verifier.verify(stripped), Err(JwtError::Signature));
}

#[test]
fn a_token_of_another_key_under_a_known_name_is_not_believed() {
    let (mine, other) = (issuer(Algorithm::EdDSA), Issuer::generate(Algorithm::EdDSA, "other"));
    let forged = other.token_with(&mine.header(Algorithm::EdDSA), &claims(&json!({})));
    assert_eq!(verifier(&[mine]).verify(&forged), Err(JwtError::Signature));
}

#[test]
fn keys_and_certificates_that_a_token_brings_along_are_not_used() {
    let (mine, other) = (issuer(Algorithm::EdDSA), Issuer::generate(Algorithm::EdDSA, "other"));
    let header = Header { jwk: Some(other.jwk()), ..mine.header(Algorithm::EdDSA) };
    assert_eq!(
        verifier(&[mine]).verify(&other.token_with(&header, &claims(&json!({})))),
        Err(JwtError::Signature)
    );
}

#[test]
fn an_extension_that_must_be_understood_is_refused() {
    let issuer = issuer(Algorithm::EdDSA);
    let header = Header { crit: Some(vec!["b64".into()]), ..issuer.header(Algorithm::EdDSA) };
    assert_eq!(
        verifier(&[issuer]).verify(&issuer.token_with(&header, &claims(&json!({})))),
        Err(JwtError::Critical)
    );
}

#[test]
fn only_one_key_can_go_without_a_name() {
    let (one, two) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let nameless = one.token_with(&Header { kid: None, ..one.header(Algorithm::EdDSA) }, &claims(&json!({})));
    assert!(verifier(&[one]).verify(&nameless).is_ok());
    assert_eq!(verifier(&[one, two]).verify(&nameless), Err(JwtError::UnknownKey));
    assert_eq!(verifier(&[two]).verify(&one.token(&claims(&json!({})))), Err(JwtError::UnknownKey));
    let without_keys = Verifier::new(policy(), Clock::start());
    assert_eq!(without_keys.verify(&nameless), Err(JwtError::NoKeys));
}

#[test]
fn issuer_audience_and_expiry_are_asked_for() {
    let another = json!("https://evil.example");
    for (changes, expected) in [
        (json!({ "iss": another }), JwtError::Issuer),
        (json!({ "iss": null }), JwtError::Claim("iss")),
        (json!({ "iss": 7 }), JwtError::Claim("iss")),
        (json!({ "aud": "billing" }), JwtError::Audience),
        (json!({ "aud": ["billing", "mail"] }), JwtError::Audience),
        (json!({ "aud": null }), JwtError::Claim("aud")),
        (json!({ "exp": null }), JwtError::Claim("exp")),
        (json!({ "exp": "tomorrow" }), JwtError::Claim("exp")),
        (json!({ "exp": -1 }), JwtError::Claim("exp")),
        (json!({ "exp": 1e300 }), JwtError::Claim("exp")),
        (json!({ "exp": 0 }), JwtError::Expired),
        (json!({ "nbf": "yesterday" }), JwtError::Claim("nbf")),
    ] {
        assert_eq!(judged(&changes), Err(expected), "{changes}");
    }
    for changes in [json!({ "aud": ["billing", "gateway"] }), json!({ "exp": 1e18 }), json!({ "nbf": 0.5 })] {
        assert!(judged(&changes).is_ok(), "{changes}");
    }
}

#[test]
fn without_an_audience_of_its_own_a_gateway_takes_no_token_for_somebody_else() {
    let issuer = issuer(Algorithm::EdDSA);
    let verifier = verifier(&[issuer]);
    verifier.set_policy(Policy { issuers: vec![IssuerPolicy::default()], ..Policy::default() });
    verifier.set_keys("", &key_set(&[issuer]));
    let other = claims(&json!({ "iss": "https://other.example" }));
    assert_eq!(verifier.verify(&issuer.token(&other)), Err(JwtError::Audience));
    let other = claims(&json!({ "iss": "https://other.example", "aud": null }));
    assert_eq!(verifier.verify(&issuer.token(&other)).map(|claims| claims.tenant.clone()), Ok(None));
}

#[tokio::test(start_paused = true)]
async fn a_token_counts_from_its_beginning_to_its_end_give_or_take_half_a_minute() {
    let (clock, issuer) = (Clock::start(), issuer(Algorithm::EdDSA));
    let verifier = verifier_at(&[issuer], clock);
    let now = clock.unix().as_secs();
    let token = issuer.token(&claims(&json!({ "nbf": now + 100, "exp": now + 200 })));
    let pass_to = async |seconds: u64| {
        tokio::time::advance(Duration::from_secs(now + seconds).saturating_sub(clock.unix())).await;
    };
    pass_to(69).await;
    assert_eq!(verifier.verify(&token), Err(JwtError::NotYet));
    pass_to(71).await;
    assert!(verifier.verify(&token).is_ok());
    pass_to(229).await;
    assert!(verifier.peek(&token, clock.now()).is_some());
    pass_to(231).await;
    assert!(verifier.peek(&token, clock.now()).is_none());
    assert_eq!(verifier.verify(&token), Err(JwtError::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_when_the_clock_of_the_machine_says_so_even_if_that_was_wrong_at_the_start() {
    let (clock, issuer) = (Clock::start(), issuer(Algorithm::EdDSA));
    let verifier = verifier_at(&[issuer], clock);
    let wall = clock.unix();
    let token = issuer.token(&claims(&json!({ "exp": wall.as_secs() + 600 })));
    assert!(verifier.verify(&token).is_ok());
    clock.follow(wall + Duration::from_secs(3600));
    assert!(verifier.peek(&token, clock.now()).is_none(), "what was verified before is judged anew");
    assert_eq!(verifier.verify(&token), Err(JwtError::Expired));
    clock.follow(wall);
    assert!(verifier.verify(&token).is_ok());
}

#[test]
fn the_tenant_is_the_first_claim_that_there_is() {
    for (changes, expected) in [
        (json!({ "org": "globex" }), Some("globex")),
        (json!({}), Some("acme")),
        (json!({ "org": 42 }), Some("42")),
        (json!({ "sub": null }), None),
    ] {
        assert_eq!(tenant(&judged(&changes).unwrap()), expected, "{changes}");
    }
    let (longest, longer) = ("x".repeat(128), "x".repeat(129));
    assert!(judged(&json!({ "org": longest })).is_ok());
    for bad in [json!(longer), json!(""), json!("two words"), json!(1.5), json!(["acme"]), json!({ "id": 1 })]
    {
        let refused = judged(&json!({ "org": bad })).unwrap_err();
        assert_eq!((refused.clone(), refused.reason()), (JwtError::Tenant, Reason::Forbidden), "{bad}");
    }
}

#[test]
fn a_policy_is_what_the_configuration_says() {
    let auth = AuthConfig {
        jwks_url: "file:/keys.json".into(),
        jwt_issuer: ISSUER.into(),
        jwt_audience: "gateway".into(),
        ..AuthConfig::default()
    };
    let tenant_from = ["jwt:org", "capability", "jwt:sub", "ip"].map(|source| source.parse().unwrap());
    let gateway = GatewayConfig { tenant_from: tenant_from.to_vec(), ..GatewayConfig::default() };
    assert_eq!(Policy::new(&auth, &gateway), policy());
}

#[test]
fn a_verified_token_is_known_at_once_and_an_unverified_one_never() {
    let issuer = issuer(Algorithm::EdDSA);
    let verifier = verifier(&[issuer]);
    let (good, bad) =
        (issuer.token(&claims(&json!({}))), issuer.token(&claims(&json!({ "aud": "billing" }))));
    let now = Moment::ORIGIN;
    assert_eq!(verifier.peek(&good, now), None);
    let verified = verifier.verify(&good).unwrap();
    let known = verifier.peek(&good, now).unwrap();
    assert!(Arc::ptr_eq(&verified, &known) && Arc::ptr_eq(&verified, &verifier.verify(&good).unwrap()));
    assert!(verifier.verify(&bad).is_err());
    assert_eq!(verifier.peek(&bad, now), None);
}

#[test]
fn other_keys_or_another_policy_forget_what_was_verified_and_the_same_keys_do_not() {
    let (old, new) = (issuer(Algorithm::EdDSA), issuer(Algorithm::ES256));
    let verifier = verifier(&[old]);
    let token = old.token(&claims(&json!({})));
    verifier.verify(&token).unwrap();
    verifier.set_keys(ISSUER, &key_set(&[old]));
    assert!(verifier.peek(&token, Moment::ORIGIN).is_some());
    verifier.set_keys(ISSUER, &key_set(&[old, new]));
    assert!(verifier.peek(&token, Moment::ORIGIN).is_none());
    verifier.verify(&token).unwrap();
    let mut billing = policy();
    billing.issuers[0].audience = "billing".into();
    verifier.set_policy(billing);
    assert!(verifier.peek(&token, Moment::ORIGIN).is_none());
    assert_eq!(verifier.verify(&token), Err(JwtError::Audience));
    verifier.set_policy(policy());
    verifier.set_keys(ISSUER, &key_set(&[new]));
    assert_eq!(verifier.verify(&token), Err(JwtError::UnknownKey));
    verifier.forget_keys(ISSUER);
    assert_eq!(verifier.verify(&token), Err(JwtError::NoKeys));
}

#[test]
fn a_token_may_have_eight_kibibytes_and_no_byte_more() {
    let issuer = issuer(Algorithm::EdDSA);
    let verifier = verifier(&[issuer]);
    let padded = |pad: usize| issuer.token(&claims(&json!({ "pad": "x".repeat(pad) })));
    let fits = (5500..6100).map(padded).find(|token| token.len() == MAX_TOKEN_BYTES).unwrap();
    assert!(verifier.verify(&fits).is_ok());
    let too_long = (5500..6100).map(padded).find(|token| token.len() > MAX_TOKEN_BYTES).unwrap();
    assert_eq!(verifier.verify(&too_long), Err(JwtError::TooLong));
    assert!(verifier.peek(&too_long, Moment::ORIGIN).is_none());
}

#[test]
fn no_refusal_shows_any_of_the_token() {
    let issuer = issuer(Algorithm::EdDSA);
    let verifier = verifier(&[issuer]);
    let marked = |changes: Value| issuer.token(&claims(&changes));
    let unknown = Issuer::generate(Algorithm::EdDSA, "SECRET");
    for token in [
        marked(json!({ "iss": "SECRET" })),
        marked(json!({ "aud": "SECRET" })),
        marked(json!({ "org": "SECRET SECRET" })),
        marked(json!({ "exp": "SECRET" })),
        unknown.token(&claims(&json!({}))),
        "SECRET.SECRET.SECRET".to_owned(),
        format!("{}SECRET", marked(json!({}))),
    ] {
        let error = verifier.verify(&token).unwrap_err();
        let refusal = Refusal::from(error.clone());
        let shown = format!("{error} {error:?} {refusal} {refusal:?} {verifier:?}");
        assert!(!shown.contains("SECRET"), "{shown}");
        assert!(token.split('.').all(|part| !shown.contains(part)), "{shown}");
    }
}

#[test]
fn every_prefix_of_a_token_is_refused() {
    let issuer = issuer(Algorithm::EdDSA);
    let verifier = verifier(&[issuer]);
    let token = issuer.token(&claims(&json!({})));
    for end in 0..token.len() {
        assert!(verifier.verify(&token[..end]).is_err(), "{end} of {}", token.len());
    }
}

proptest! {
    #[test]
    fn a_token_with_any_character_changed_is_refused(at in 0..300_usize, to in "[A-Za-z0-9_.-]") {
        let issuer = issuer(Algorithm::EdDSA);
        let token = issuer.token(&claims(&json!({})));
        let at = at % token.len();
        prop_assume!(token[at..=at] != to);
        let changed = format!("{}{to}{}", &token[..at], &token[at + 1..]);
        prop_assert!(verifier(&[issuer]).verify(&changed).is_err());
    }

    #[test]
    fn no_text_makes_a_verifier_panic(text in "\\PC{0,200}", parts in "[A-Za-z0-9_-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,5}") {
        let verifier = verifier(&[issuer(Algorithm::EdDSA)]);
        prop_assert!(verifier.verify(&text).is_err());
        prop_assert!(verifier.verify(&parts).is_err());
    }
}
