//! Mermaid diagrams, each followed by the same in words.

use std::fmt::Write;

use super::words::{STAGES, code, plane, stage, what_happens_at};
use crate::topology::{Plane, Policy, QueueSpec, Stage, Topology};

/// What stands at one end of a queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Node {
    Task(Plane),
    Child(Plane),
    Outside,
}

/// Tasks and queues as a graph.
pub(super) fn flow(topology: &Topology) -> String {
    let nodes = nodes(topology);
    let mut text = "```mermaid\nflowchart LR\n".to_owned();
    for side in [Plane::Control, Plane::Data] {
        let inside = |node: Node| node == Node::Task(side) || node == Node::Child(side);
        if nodes.iter().any(|&(_, node)| inside(node)) {
            let name = plane(side);
            let _ = writeln!(text, "    subgraph {name}_plane [\"{name} plane\"]");
            draw_nodes(&mut text, "        ", &nodes, inside);
            text.push_str("    end\n");
        }
    }
    draw_nodes(&mut text, "    ", &nodes, |node| node == Node::Outside);
    for queue in topology.queues {
        let _ = writeln!(
            text,
            "    {} {}|\"{}({})\"| {}",
            id(&nodes, queue.from),
            arrow(queue.policy),
            escaped(queue.name),
            queue.capacity,
            id(&nodes, queue.to)
        );
    }
    text.push_str("```\n\n");
    text.push_str(&flow_in_words(topology));
    text
}

fn flow_in_words(topology: &Topology) -> String {
    let mut text = "Boxes are tasks, rounded boxes are short-lived children, hexagons stand for everything else. Each arrow \
                    is a queue with its capacity; a dashed one reaches every reader and waits for none.\n"
        .to_owned();
    if !topology.queues.is_empty() {
        text.push('\n');
    }
    for queue in topology.queues {
        let (name, QueueSpec { capacity, from, to, doc, .. }) = (code(queue.name), queue);
        let _ = writeln!(
            text,
            "* {name}: from {from} to {to}, at most {capacity}; {}.",
            doc.trim_end_matches('.')
        );
    }
    let at_no_queue =
        |name: &&str| !topology.queues.iter().any(|queue| [queue.from, queue.to].contains(name));
    let alone: Vec<_> = own_names(topology).map(|(name, _)| name).filter(at_no_queue).map(code).collect();
    if !alone.is_empty() {
        let _ = writeln!(text, "\nAt no queue: {}.", alone.join(", "));
    }
    text
}

/// Stages of the drain as a conversation between the kernel and what it stops.
pub(super) fn shutdown(topology: &Topology) -> String {
    let names: Vec<_> = own_names(topology).map(|(name, _)| name).collect();
    let mut text = "```mermaid\nsequenceDiagram\n    participant kernel\n".to_owned();
    for (number, name) in names.iter().enumerate() {
        let _ = writeln!(text, "    participant p{number} as {}", escaped(name));
    }
    let number = |name: &str| names.iter().position(|known| *known == name).unwrap_or_default();
    for at in STAGES {
        let _ = writeln!(text, "    Note over kernel: {}", stage(at));
        for task in topology.tasks.iter().filter(|task| task.stop == at) {
            let _ = writeln!(text, "    kernel->>p{}: stop", number(task.name));
        }
        let ending = STAGES.into_iter().filter(|told| waited_for_at(*told) == at);
        for (name, _) in ending.flat_map(|told| stopping_at(topology, told)) {
            let _ = writeln!(text, "    p{}-->>kernel: ended", number(name));
        }
    }
    text.push_str("    Note over kernel: stopped\n```\n\n");
    for (number, at) in (1..).zip(STAGES) {
        let _ = writeln!(
            text,
            "{number}. **{}**: {}. {}",
            stage(at),
            what_happens_at(at),
            stops_in_words(topology, at)
        );
    }
    text.push_str("\nWhat is still alive when the drain deadline passes is aborted and named.\n");
    text
}

fn stops_in_words(topology: &Topology, at: Stage) -> String {
    let list = |tasks: bool| {
        let of_kind = |&(_, node): &(&str, Node)| matches!(node, Node::Task(_)) == tasks;
        let names: Vec<_> = stopping_at(topology, at).filter(of_kind).map(|(name, _)| code(name)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let told = list(true).map(|names| format!("Told to stop: {names}."));
    let left = list(false).map(|names| format!("Left to finish: {names}."));
    let sentences: Vec<_> = told.into_iter().chain(left).collect();
    let sequel = if waited_for_at(at) == at {
        "The node goes on when they have ended."
    } else {
        "They are waited for at the end."
    };
    match sentences.as_slice() {
        [] => "Nothing of this service ends here.".to_owned(),
        _ => format!("{} {sequel}", sentences.join(" ")),
    }
}

/// The stage that waits for what was told to stop at `told`. Flipping readiness waits for nobody.
fn waited_for_at(told: Stage) -> Stage {
    match told {
        Stage::Readiness => Stage::Support,
        later => later,
    }
}

/// Tasks, then kinds of children.
fn own_names(topology: &Topology) -> impl Iterator<Item = (&'static str, Node)> {
    let tasks = topology.tasks.iter().map(|task| (task.name, Node::Task(task.plane)));
    tasks.chain(topology.children.iter().map(|child| (child.kind, Node::Child(child.plane))))
}

fn stopping_at(topology: &Topology, at: Stage) -> impl Iterator<Item = (&'static str, Node)> {
    let stops =
        topology.tasks.iter().map(|task| task.stop).chain(topology.children.iter().map(|child| child.stop));
    own_names(topology).zip(stops).filter(move |(_, stop)| *stop == at).map(|(own, _)| own)
}

/// Everything the graph shows: what the service runs, then who else stands at its queues, each once.
fn nodes(topology: &Topology) -> Vec<(&'static str, Node)> {
    let mut nodes: Vec<_> = own_names(topology).collect();
    for end in topology.queues.iter().flat_map(|queue| [queue.from, queue.to]) {
        if !nodes.iter().any(|(name, _)| *name == end) {
            nodes.push((end, Node::Outside));
        }
    }
    nodes
}

fn draw_nodes(text: &mut String, indent: &str, nodes: &[(&str, Node)], wanted: impl Fn(Node) -> bool) {
    for (number, &(name, node)) in nodes.iter().enumerate().filter(|(_, (_, node))| wanted(*node)) {
        let (open, close) = match node {
            Node::Task(_) => ("[", "]"),
            Node::Child(_) => ("([", "])"),
            Node::Outside => ("{{", "}}"),
        };
        let _ = writeln!(text, "{indent}n{number}{open}\"{}\"{close}", escaped(name));
    }
}

fn id(nodes: &[(&str, Node)], name: &str) -> String {
    let number = nodes.iter().position(|(known, _)| *known == name).unwrap_or_default();
    format!("n{number}")
}

fn arrow(policy: Policy) -> &'static str {
    match policy {
        Policy::Broadcast | Policy::Watch => "-.->",
        Policy::RejectNew | Policy::DropOldest | Policy::RetryOnce { .. } | Policy::Await { .. } => "-->",
    }
}

/// With codes for the characters that mean something to mermaid.
fn escaped(name: &str) -> String {
    let mut safe = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '#' => safe.push_str("#35;"),
            '"' => safe.push_str("#quot;"),
            ';' => safe.push_str("#59;"),
            _ => safe.push(c),
        }
    }
    safe
}
