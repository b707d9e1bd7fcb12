//! Hostile clients and hostile servers against the built program: each test is an attack that once worked.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests drive the program from outside and fail with the reason"
)]

mod abandoned;
mod access_rules;
mod admin;
mod answer_fields;
mod blame;
mod bundles;
mod cache;
mod cache_fills;
mod cache_lives;
mod cache_named_fields;
mod cache_node;
mod cache_origin;
mod cache_parts;
mod cache_personal;
mod cache_purge;
mod cache_queues;
mod cache_rules;
mod cache_sharing;
mod cache_store;
mod cache_updates;
mod cache_writes;
mod capability_rates;
mod client_certificates;
mod config_file;
mod connections;
#[path = "../../store/cas/tests/suite/support/damage.rs"]
mod damage;
mod dangerous_settings;
mod data_files;
mod deadlines;
mod decode_memory;
mod denials;
mod edge_blame;
mod edge_damage;
mod edge_fills;
mod edge_places;
mod edge_requests;
mod edge_streams;
mod floods;
mod full_disk;
mod h2_frames;
mod h2_malformed;
mod h2_refusals;
mod h2_server;
mod h2_silent;
mod h2_upstream;
mod h2_upstream_floods;
mod h2_upstream_room;
mod handshakes;
mod health_places;
mod identity_fields;
mod interim;
mod jwt_issuer;
mod jwt_tenants;
mod keep_alive;
mod left_processes;
mod log_floods;
mod metric_labels;
mod odd_paths;
mod odd_requests;
#[expect(dead_code, reason = "another test program uses the rest")]
#[path = "../e2e/overlay/node.rs"]
mod overlay_node;
mod peers;
mod promises;
mod reload_trail;
mod reread_files;
mod retry_shares;
mod sandbox;
mod scripted_server;
mod slots;
mod slow_transfers;
mod small_frames;
mod special_files;
mod stalled_readers;
mod streams;
#[path = "../e2e/support/mod.rs"]
mod support;
mod torn_lines;
mod trailers;
mod unread_log;
mod unread_views;
mod upstream_turns;
mod upstream_words;
