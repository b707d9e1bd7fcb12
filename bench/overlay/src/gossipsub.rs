//! libp2p's gossipsub, as its defaults have it: all nodes in this process, each connected to a few of the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use libp2p::{
    Multiaddr, Swarm, SwarmBuilder,
    gossipsub::{self, IdentTopic, MessageAuthenticity, ValidationMode},
    noise,
    swarm::SwarmEvent,
    tcp, yamux,
};
use serde_json::Value;

use crate::{
    Outcome,
    fan::{Case, Got, report},
    measure,
};

/// How many of the following nodes each node dials, on a ring.
const DIALS: usize = 4;

/// Publications that the slowest may be behind.
const WINDOW: u64 = 256;

type Node = Swarm<gossipsub::Behaviour>;

/// Runs a case. Messages are not signed: nobody else here signs them.
pub(crate) fn run(case: &Case) -> Outcome<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measured(case))
}

async fn measured(case: &Case) -> Outcome<Value> {
    let topic = IdentTopic::new("bench");
    let mut nodes = Vec::new();
    for _ in 0..=case.subscribers {
        nodes.push(node(&topic).await?);
    }
    let addrs: Vec<_> = nodes.iter().map(|(_, addr)| addr.clone()).collect();
    let got: Vec<Arc<Got>> = (0..case.subscribers).map(|_| Arc::default()).collect();
    let mut publisher = None;
    for (at, (mut swarm, _)) in nodes.into_iter().enumerate() {
        for step in 1..=DIALS.min(addrs.len() - 1) {
            // Some are connected already, from the other side.
            let _ = swarm.dial(addrs[(at + step) % addrs.len()].clone());
        }
        match at.checked_sub(1) {
            Some(number) => drop(tokio::spawn(listen(swarm, Arc::clone(&got[number])))),
            None => publisher = Some(swarm),
        }
    }
    let mut publisher = publisher.ok_or("nobody publishes")?;
    turn(&mut publisher, Duration::from_secs(4)).await;
    let before = measure::cpu_us("self")?;
    let start = Instant::now();
    let sent = publish(&mut publisher, &topic, case, &got).await;
    let elapsed = start.elapsed();
    let total = || got.iter().map(|got| got.count.load(Relaxed)).sum::<u64>();
    let within = total();
    turn(&mut publisher, Duration::from_secs(2)).await;
    let cpu = (measure::cpu_us("self")? - before) as f64 / total().max(1) as f64;
    let rss = measure::rss_kib("self")?;
    Ok(report(case, &got, sent, within as f64 / elapsed.as_secs_f64(), (cpu, 0.0), rss))
}

async fn node(topic: &IdentTopic) -> Outcome<(Node, Multiaddr)> {
    let config = gossipsub::ConfigBuilder::default()
        .validation_mode(ValidationMode::None)
        .message_id_fn(|message| gossipsub::MessageId::from(message.data[..16].to_vec()))
        .build()?;
    let mut swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default().nodelay(true), noise::Config::new, yamux::Config::default)?
        .with_behaviour(|_| Ok(gossipsub::Behaviour::new(MessageAuthenticity::Anonymous, config)?))?
        .with_swarm_config(|config| config.with_idle_connection_timeout(Duration::from_secs(600)))
        .build();
    swarm.behaviour_mut().subscribe(topic)?;
    swarm.listen_on("/ip4/127.0.0.1/tcp/0".parse()?)?;
    loop {
        if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
            return Ok((swarm, address));
        }
    }
}

async fn listen(mut swarm: Node, got: Arc<Got>) {
    let mut latencies = Vec::new();
    loop {
        if let SwarmEvent::Behaviour(gossipsub::Event::Message { message, .. }) =
            swarm.select_next_some().await
        {
            got.add(&message.data, &mut latencies);
        }
    }
}

/// Lets a node do what it has to do for a while.
async fn turn(swarm: &mut Node, time: Duration) {
    let _ = tokio::time::timeout(time, async {
        loop {
            swarm.select_next_some().await;
        }
    })
    .await;
}

async fn publish(swarm: &mut Node, topic: &IdentTopic, case: &Case, got: &[Arc<Got>]) -> u64 {
    let sent = AtomicU64::new(0);
    let slowest = || got.iter().map(|got| got.count.load(Relaxed)).min().unwrap_or(0);
    let mut body = vec![b'x'; case.bytes];
    let start = Instant::now();
    while start.elapsed() < case.time {
        let number = sent.load(Relaxed);
        let allowed = match case.rate {
            0 => slowest() + WINDOW,
            rate => (start.elapsed().as_secs_f64() * rate as f64) as u64,
        };
        if number < allowed {
            body[..8].copy_from_slice(&measure::now().to_le_bytes());
            body[8..16].copy_from_slice(&number.to_le_bytes());
            // A full queue refuses: what was not taken does not count as sent.
            if swarm.behaviour_mut().publish(topic.clone(), body.clone()).is_ok() {
                sent.fetch_add(1, Relaxed);
                if number % 8 != 0 {
                    continue;
                }
            }
        }
        turn(swarm, Duration::from_micros(200)).await;
    }
    sent.load(Relaxed)
}
