//! Subscribers that come back: they go on where they were, and are told what is gone.

use svc_overlay::{Delivery, EventId};

use crate::support::{Node, plain};

fn text(delivery: &Delivery) -> String {
    match delivery {
        Delivery::Publication { body, .. } => String::from_utf8(body.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_subscriber_that_comes_back_goes_on_where_it_was() {
    let node = Node::start(&plain(""));
    let mut heard = node.subscribe("news");
    (1..=3).for_each(|number| drop(node.publish("news", &number.to_string())));
    let mut last = None;
    for number in 1..=2 {
        let (id, delivery) = node.next_event(&mut heard);
        assert_eq!(text(&delivery), number.to_string());
        last = Some(id);
    }
    drop(heard);
    node.publish("news", "4");
    let mut heard = node.resume("news", last.unwrap());
    node.publish("news", "5");
    for number in 3..=5 {
        assert_eq!(text(&node.next_event(&mut heard).1), number.to_string());
    }
}

#[test]
fn a_subscriber_that_comes_back_too_late_is_told_how_much_is_gone() {
    let node = Node::start(&plain(""));
    let mut heard = node.subscribe("news");
    node.publish("news", "first");
    let (first, _) = node.next_event(&mut heard);
    let outcomes = node.publish_many("news", 1500);
    assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
    let mut again = node.resume("news", first);
    assert!(matches!(node.next(&mut again), Delivery::Lagging(477)), "1,023 of them are kept");
    (0..1023).for_each(|_| drop(text(&node.next(&mut again))));
}

#[test]
fn what_was_heard_in_another_life_of_the_node_is_not_known() {
    let node = Node::start(&plain("topics = [\"news\"]"));
    node.publish("news", "kept");
    let elsewhere: EventId = "17-4".parse().unwrap();
    let mut heard = node.resume("news", elsewhere);
    assert!(matches!(node.next(&mut heard), Delivery::NotResumed));
    assert_eq!(node.hear(&mut heard), "kept");
}
