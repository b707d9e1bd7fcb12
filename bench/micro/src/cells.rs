//! What every request reads or adds to, against one bare atomic each.

use std::{
    hint::black_box,
    sync::atomic::{AtomicU8, AtomicU64, Ordering},
    thread,
};

use types::ActorId;

use crate::{
    Failure,
    bench_topology::with_scope,
    paired::{Pair, all_cpu_ns_per, cpu_ns_per},
    report::{Group, Report},
};

/// Calls in a round, per thread.
const CALLS: usize = 500_000;

const fn group(name: &'static str, against: &'static str) -> Group {
    Group { name, unit: "ns/call", against, goal: None }
}

/// Reads the phase of the shutdown.
pub(crate) fn phase(rounds: usize, report: &mut Report) -> Result<(), Failure> {
    with_scope(|scope| {
        let (shutdown, bare) = (scope.shutdown(), AtomicU8::new(0));
        let load = || black_box(&bare).load(Ordering::Acquire);
        let group = group("phase", "an atomic load");
        let pair = Pair::measure(rounds, || alone(|| black_box(shutdown).phase()), || alone(load));
        report.add(group, "Shutdown::phase", pair);
        let pair = Pair::measure(rounds, || alone(|| black_box(shutdown).is_draining()), || alone(load));
        report.add(group, "Shutdown::is_draining", pair);
        Ok(())
    })
}

/// Adds to a usage meter.
pub(crate) fn meter(rounds: usize, report: &mut Report) -> Result<(), Failure> {
    with_scope(|scope| {
        let meter = scope.meters().meter(&ActorId::new("acme")?, "used.requests");
        let bare = AtomicU64::new(0);
        let ours = || black_box(&meter).add(1);
        let add = || black_box(&bare).fetch_add(1, Ordering::Relaxed);
        let group = group("meter", "an atomic add");
        let pair = Pair::measure(rounds, || alone(ours), || alone(add));
        report.add(group, "Meter::add, one thread", pair);
        let pair = Pair::measure(rounds, || together(ours), || together(add));
        report.add(group, "Meter::add, two threads", pair);
        Ok(())
    })
}

/// Asks whether writes are shed.
pub(crate) fn readiness(rounds: usize, report: &mut Report) -> Result<(), Failure> {
    with_scope(|scope| {
        let (service, bare) = (scope.readiness().service(scope.service()), AtomicU8::new(0));
        let pair = Pair::measure(
            rounds,
            || alone(|| black_box(&service).sheds_writes()),
            || alone(|| black_box(&bare).load(Ordering::Relaxed)),
        );
        report.add(group("readiness", "an atomic load"), "ServiceReadiness::sheds_writes", pair);
        Ok(())
    })
}

fn alone<R>(call: impl Fn() -> R) -> f64 {
    cpu_ns_per(CALLS, || all(&call))
}

fn together<R>(call: impl Fn() -> R + Sync) -> f64 {
    all_cpu_ns_per(2 * CALLS, || {
        thread::scope(|scope| {
            scope.spawn(|| all(&call));
            all(&call);
        });
    })
}

fn all<R>(call: &impl Fn() -> R) {
    for _ in 0..CALLS {
        black_box(call());
    }
}
