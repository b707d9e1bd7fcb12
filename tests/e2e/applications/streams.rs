//! Event streams: one topic, several, patterns, and going on after a cut.

use super::{Events, OPEN, TopicNode, settings};

#[test]
fn what_is_published_is_heard_by_name_and_by_pattern() {
    let node = TopicNode::start(OPEN);
    let mut exact = Events::open(node.api, "metrics.db.cpu/events", "");
    let mut star = Events::open(node.api, "metrics.*.cpu/events", "");
    let mut angle = Events::open(node.api, "metrics.%3E/events", "");
    let mut several = Events::open(node.api, "news/events?topic=metrics.web.cpu&topic=chat.*", "");
    for topic in
        ["metrics.db.cpu", "metrics.web.cpu", "metrics.db.disk.free", "metrics", "news", "chat.a", "chat.a.b"]
    {
        assert_eq!(node.publish(topic, topic), 1);
    }
    assert_eq!(exact.text(), "metrics.db.cpu");
    let heard = |events: &mut Events, count: usize| {
        let mut texts: Vec<String> = (0..count).map(|_| events.text()).collect();
        texts.sort();
        texts
    };
    assert_eq!(heard(&mut star, 2), ["metrics.db.cpu", "metrics.web.cpu"]);
    assert_eq!(heard(&mut angle, 3), ["metrics.db.cpu", "metrics.db.disk.free", "metrics.web.cpu"]);
    assert_eq!(heard(&mut several, 3), ["chat.a", "metrics.web.cpu", "news"]);
    // Nothing else came before this.
    node.publish("metrics.web.cpu", "last");
    for events in [&mut star, &mut angle, &mut several] {
        assert_eq!(events.text(), "last");
    }
}

#[test]
fn a_stream_of_one_topic_goes_on_behind_its_last_event() {
    let node = TopicNode::start(OPEN);
    let mut events = Events::open(node.api, "news/events", "");
    for text in ["one", "two"] {
        node.publish("news", text);
    }
    let id = events.next().id;
    drop(events);
    node.publish("news", "three");
    let mut events = Events::open(node.api, "news/events", &format!("last-event-id: {id}\r\n"));
    assert_eq!([events.text(), events.text()], ["two", "three"]);
    let mut events = Events::open(node.api, &format!("news/events?after={id}"), "");
    assert_eq!([events.text(), events.text()], ["two", "three"]);
    let mut events = Events::open(node.api, "news/events", "last-event-id: 1-1\r\n");
    assert_eq!(events.next().kind, "not_resumed");
}

#[test]
fn a_stream_of_many_topics_goes_on_in_each_of_them() {
    let node = TopicNode::start(OPEN);
    // Enough topics that both cores have some.
    let topics: Vec<String> = (0..8).map(|n| format!("room.{n}")).collect();
    let path = "room.*/events?topic=news";
    let mut events = Events::open(node.api, path, "");
    for topic in &topics {
        node.publish(topic, &format!("{topic} first"));
    }
    let mut before: Vec<_> = (0..topics.len()).map(|_| events.next()).collect();
    let last = before.pop().unwrap();
    drop(events);
    for topic in topics.iter().map(String::as_str).chain(["news"]) {
        node.publish(topic, &format!("{topic} second"));
    }
    let mut events = Events::open(node.api, path, &format!("last-event-id: {}\r\n", last.id));
    let mut heard: Vec<String> = (0..=topics.len()).map(|_| events.text()).collect();
    heard.sort();
    let mut expected: Vec<String> =
        topics.iter().map(|topic| format!("{topic} second")).chain(["news second".to_owned()]).collect();
    expected.sort();
    assert_eq!(heard, expected, "each of what came meanwhile, once");
    // One event earlier, one more is told.
    let earlier = before.pop().unwrap();
    let mut events = Events::open(node.api, path, &format!("last-event-id: {}\r\n", earlier.id));
    let heard: Vec<String> = (0..topics.len() + 2).map(|_| events.text()).collect();
    assert!(heard.contains(&last.data["text"].as_str().unwrap().to_owned()), "{heard:?}");
    // The id of one topic's event says nothing of where it was in many.
    let mut events = Events::open(node.api, path, "last-event-id: 7-1\r\n");
    assert_eq!(events.next().kind, "not_resumed");
}

#[test]
fn what_is_gone_is_named_to_whoever_comes_back_too_late() {
    let lines = "security = \"plaintext\"\ngossip = { retain_events = 4 }\n";
    let node =
        TopicNode::start_in(tempfile::tempdir().unwrap(), lines, &format!("{OPEN}publish_rps = 0\n"), "");
    let mut one = Events::open(node.api, "news/events", "");
    let mut many = Events::open(node.api, "news/events?topic=other", "");
    node.publish("news", "first");
    let ids = [one.next().id, many.next().id];
    drop((one, many));
    for number in 0..10 {
        node.publish("news", &number.to_string());
    }
    for (path, id) in ["news/events", "news/events?topic=other"].iter().zip(ids) {
        let mut events = Events::open(node.api, path, &format!("last-event-id: {id}\r\n"));
        let first = events.next();
        assert_eq!((first.kind.as_str(), &first.data["missed"]), ("lagging", &6.into()), "{path}");
        assert_eq!(
            [events.text(), events.text(), events.text(), events.text()],
            ["6", "7", "8", "9"],
            "{path}"
        );
    }
}

#[test]
fn an_id_of_a_node_with_other_cores_gets_not_resumed_and_all_that_is_kept() {
    let node = TopicNode::start(OPEN);
    let topics: Vec<String> = (0..8).map(|n| format!("room.{n}")).collect();
    for topic in &topics {
        node.publish(topic, topic);
    }
    // As a node with one core would issue it, and one with more than this one has.
    for id in ["0:1-1", "0:1-1.1:2-1.2:3-1", "7:1-1"] {
        let id = format!("last-event-id: {id}\r\n");
        let mut events = Events::open(node.api, "room.*/events", &id);
        assert_eq!(events.next().kind, "not_resumed", "{id}");
        let mut heard: Vec<String> = topics.iter().map(|_| events.text()).collect();
        heard.sort();
        assert_eq!(heard, topics, "{id}");
        // Whichever core has the topics.
        for pair in topics.windows(2) {
            let path = format!("{}/events?topic={}", pair[0], pair[1]);
            let mut events = Events::open(node.api, &path, &id);
            assert_eq!(events.next().kind, "not_resumed", "{id} {path}");
            let mut heard = [events.text(), events.text()];
            heard.sort();
            assert_eq!(heard, pair, "{id}");
        }
    }
}

#[test]
fn who_comes_back_after_the_node_left_a_topic_is_told_so() {
    let lines = |topics: &str| format!("security = \"plaintext\"\ntopics = {topics}\n");
    let node = TopicNode::start_in(tempfile::tempdir().unwrap(), &lines("[\"w.1\"]"), OPEN, "");
    let paths = ["w.%3E/events", "w.1/events?topic=w.2", "w.1/events"];
    let mut ids = Vec::new();
    for path in paths {
        let mut events = Events::open(node.api, path, "");
        node.publish("w.1", "heard");
        ids.push(events.next().id);
    }
    node.publish("w.1", "kept until the topic is left");
    node.node.reload(&settings(node.api, node.overlay, &lines("[]"), OPEN, ""));
    for (path, id) in paths.iter().zip(ids) {
        let mut events = Events::open(node.api, path, &format!("last-event-id: {id}\r\n"));
        assert_eq!(events.next().kind, "not_resumed", "{path}");
        node.publish("w.1", "after");
        assert_eq!(events.text(), "after", "{path}");
    }
}
