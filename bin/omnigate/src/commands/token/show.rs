//! `omnigate token inspect` and `verify`.

use captoken::{
    Bearer, Caveat, KeyRing, NameList, NodeSession, Request, RevocationList, Token, TokenError, TopicRight,
};
use ron_kernel::ExitCode;
use serde_json::{Value, json};
use svc_gateway::{load_revoked, load_root_key};
use topics::Pattern;

use super::{
    args::{TokenArg, VerifyArgs},
    moment,
};
use crate::{
    commands::{pretty, print},
    failure::Failure,
};

/// Shows what a token says.
pub(super) fn inspect(token: &TokenArg, as_json: bool) -> Result<(), Failure> {
    let token = token.parse()?;
    print(&if as_json { pretty(&described(&token)) } else { told(&token) })
}

/// Says whether a token is good for a request, and ends accordingly.
pub(super) fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let keys = args.keys.iter().map(|path| load_root_key(path)).collect::<Result<_, _>>();
    let ring = KeyRing::new(keys.map_err(Failure::failed)?).map_err(Failure::bad_config)?;
    let revoked = match &args.revoked {
        Some(path) => load_revoked(path).map_err(Failure::failed)?,
        None => RevocationList::default(),
    };
    let request = Request {
        path: &args.path,
        method: &args.method,
        ip: args.ip,
        now: args.at.map_or_else(super::now, Ok)?,
        tenant: args.tenant.as_deref(),
        scope: args.scope.as_deref(),
        session: args.node.map(|node| NodeSession { node, channel: None }),
    };
    let verdict = captoken::verify(args.token.text()?.as_bytes(), &ring, &revoked, &request);
    let verdict = topic_verdict(verdict, TopicRight::Publish, args.publish.as_deref())?;
    let verdict = topic_verdict(verdict, TopicRight::Subscribe, args.subscribe.as_deref())?;
    print(&if args.json { pretty(&verdict_json(&verdict)) } else { verdict_text(&verdict) })?;
    Ok(if verdict.is_ok() { ExitCode::Clean } else { ExitCode::Failed })
}

/// The verdict on a token that is to be good for a topic too, if one is named.
fn topic_verdict(
    verdict: Result<Bearer, TokenError>,
    right: TopicRight,
    topic: Option<&str>,
) -> Result<Result<Bearer, TokenError>, Failure> {
    let Some(topic) = topic else { return Ok(verdict) };
    let pattern = Pattern::new(topic).map_err(Failure::bad_config)?;
    Ok(verdict.and_then(|bearer| bearer.authorize_topic(right, pattern).map(|()| bearer)))
}

fn told(token: &Token) -> String {
    let grant = token.grant();
    let mut text = format!(
        "not verified: this is what the token says, not that it is true\nid      {}\nkey     {}\nclass   {}\nscopes  {}\n",
        token.id(),
        token.key_id(),
        grant.class.as_str(),
        or_none(grant.scopes.as_str()),
    );
    text.push_str("caveats\n");
    for caveat in token.caveats() {
        text.push_str(&match caveat {
            Ok(Caveat::Expires(at)) => format!("  expires: {}\n", moment(at)),
            Ok(Caveat::NotBefore(at)) => format!("  not_before: {}\n", moment(at)),
            Ok(other) => format!("  {other}\n"),
            Err(unreadable) => format!("  {}: this version refuses the token\n", unreadable.as_str()),
        });
    }
    if token.caveats().next().is_none() {
        text.push_str("  none: it is good for every request, for ever\n");
    }
    text
}

fn described(token: &Token) -> Value {
    let grant = token.grant();
    let caveats: Vec<Value> = token
        .caveats()
        .map(|caveat| match caveat {
            Ok(caveat) => json!({ "kind": caveat.name(), "value": value(&caveat) }),
            Err(unreadable) => json!({ "kind": unreadable.as_str() }),
        })
        .collect();
    json!({
        "verified": false,
        "id": token.id().to_string(),
        "key": token.key_id().to_string(),
        "class": grant.class.as_str(),
        "scopes": list(grant.scopes),
        "caveats": caveats,
    })
}

fn value(caveat: &Caveat<'_>) -> Value {
    match caveat {
        Caveat::Tenant(text) | Caveat::Path(text) => json!(text),
        Caveat::Methods(names) | Caveat::Scopes(names) => list(*names),
        Caveat::Expires(at) | Caveat::NotBefore(at) => json!(at),
        Caveat::Networks(networks) => networks.iter().map(|network| network.to_string()).collect(),
        Caveat::Class(class) => json!(class.as_str()),
        Caveat::Nodes(nodes) => nodes.iter().map(|node| node.to_string()).collect(),
        Caveat::Publish(listed) | Caveat::Subscribe(listed) => {
            listed.iter().map(|pattern| pattern.as_str()).collect()
        }
        // What it is bound to is told to nobody who could not compute it.
        Caveat::Channel(_) => json!("one connection"),
    }
}

fn list(names: NameList<'_>) -> Value {
    names.iter().collect()
}

fn verdict_text(verdict: &Result<Bearer, TokenError>) -> String {
    match verdict {
        Ok(bearer) => format!(
            "allowed: tenant {}, class {}, scopes {}, expires {}, id {}\n",
            bearer.tenant().unwrap_or("any"),
            bearer.class().as_str(),
            or_none(&bearer.scopes().collect::<Vec<_>>().join(",")),
            bearer.expires().map_or_else(|| "never".to_owned(), moment),
            bearer.id(),
        ),
        Err(refused) => format!("refused: {} {}: {refused}\n", refused.reason().status(), refused.as_str()),
    }
}

fn verdict_json(verdict: &Result<Bearer, TokenError>) -> Value {
    match verdict {
        Ok(bearer) => json!({
            "allowed": true,
            "tenant": bearer.tenant(),
            "class": bearer.class().as_str(),
            "scopes": bearer.scopes().collect::<Vec<_>>(),
            "expires": bearer.expires(),
            "id": bearer.id().to_string(),
        }),
        Err(refused) => json!({
            "allowed": false,
            "status": refused.reason().status(),
            "verdict": refused.as_str(),
            "detail": refused.to_string(),
        }),
    }
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}
