//! One program for all of these tests: each more would be linked on its own.

#![cfg(not(loom))]

mod fair_room;
mod gate;
mod gate_reference;
mod gate_room;
mod phase;
mod queue;
mod queue_reference;
mod support;
