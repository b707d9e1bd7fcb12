//! One program for all of these tests: each more would be linked on its own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod addr_parsing;
mod caps_connections;
mod client_conn;
mod client_h2;
mod client_h2_faults;
mod client_stall;
mod client_tls;
mod dial_upstreams;
mod h2_attacks;
mod h2_requests;
mod listen_sockets;
#[path = "../listen_support/mod.rs"]
mod listen_support;
mod listen_unix;
mod proxy_protocol_headers;
mod proxy_protocol_reading;
mod resolve_names;
mod serve_caps;
mod serve_drain;
mod serve_live;
mod serve_malformed;
mod serve_parking;
mod serve_proxy;
mod serve_requests;
mod serve_slow;
#[path = "../serve_support/mod.rs"]
mod serve_support;
mod serve_timeouts;
mod serve_upgrades;
mod serve_uploads;
mod tls_challenge;
mod tls_client_auth;
mod tls_errors;
mod tls_handshake;
mod tls_policy;
mod tls_pq;
mod tls_raw_key;
mod tls_reload;
