//! `omnigate losses`: what a running node gave up on the way to or from peers, and what is missing for its subscribers.

use std::fmt::Write as _;

use serde_json::Value;

use super::{admin_client::AdminClient, list_of, number_of, text_of};
use crate::{commands, config_file::ConfigSource, failure::Failure};

/// Shows what was lost, of the entries those with a higher number than `after`.
pub(in crate::commands) fn show(source: &ConfigSource, after: u64, json: bool) -> Result<(), Failure> {
    let report = AdminClient::of(source)?.get(&format!("/overlay/losses?after={after}"))?;
    commands::print(&if json { commands::pretty(&report) } else { page(&report) })
}

fn page(report: &Value) -> String {
    let mut page = format!("{} publications were given up\n", number_of(report, "total"));
    for sum in list_of(report, "sums") {
        let (topic, reason) = (text_of(sum, "topic"), text_of(sum, "reason"));
        line(&mut page, format_args!("{:>10}  {topic}  {reason}  {}", number_of(sum, "count"), party(sum)));
    }
    let others = number_of(report, "others");
    if others > 0 {
        line(&mut page, format_args!("{others:>10}  of further peers, topics and reasons"));
    }
    for loss in list_of(report, "losses") {
        let (id, span) = (&loss["id"], span(number_of(&loss["id"], "seq"), number_of(loss, "last")));
        let (topic, publisher) = (text_of(id, "topic"), text_of(id, "publisher"));
        let (reason, queue) = (text_of(loss, "reason"), text_of(loss, "queue"));
        let number = number_of(loss, "number");
        let end = party(loss);
        line(
            &mut page,
            format_args!("loss {number}: {topic} {span} of {publisher}: {reason} in {queue}, {end}"),
        );
    }
    for gap in list_of(report, "gaps") {
        let span = span(number_of(gap, "from"), number_of(gap, "to"));
        let (topic, publisher, reason) =
            (text_of(gap, "topic"), text_of(gap, "publisher"), text_of(gap, "reason"));
        line(&mut page, format_args!("gap: {topic} {span} of {publisher}: {reason}"));
    }
    page
}

/// On the way to or from whom.
fn party(loss: &Value) -> String {
    loss["peer"].as_str().map_or_else(|| "subscribers here".to_owned(), |peer| format!("peer {peer}"))
}

fn span(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

fn line(page: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "{text}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::page;

    #[test]
    fn a_report_has_the_sums_then_each_loss_and_each_gap_by_its_numbers() {
        let report = json!({
            "total": 5, "others": 1,
            "sums": [{ "peer": "b3:aa", "topic": "news", "reason": "full", "count": 4 }],
            "losses": [
                { "number": 4, "id": { "topic": "news", "publisher": "b3:cc", "seq": 7 }, "last": 10,
                  "queue": "gossip_egress", "peer": "b3:aa", "reason": "full" },
                { "number": 5, "id": { "topic": "news", "publisher": "b3:cc", "seq": 11 }, "last": 11,
                  "queue": "subscriber", "peer": null, "reason": "lagging" },
            ],
            "gaps": [{ "topic": "news", "publisher": "b3:cc", "from": 1, "to": 3, "reason": "unavailable" }],
        });
        assert_eq!(
            page(&report),
            "5 publications were given up\n         \
             4  news  full  peer b3:aa\n         \
             1  of further peers, topics and reasons\n\
             loss 4: news 7 to 10 of b3:cc: full in gossip_egress, peer b3:aa\n\
             loss 5: news 11 of b3:cc: lagging in subscriber, subscribers here\n\
             gap: news 1 to 3 of b3:cc: unavailable\n"
        );
    }
}
