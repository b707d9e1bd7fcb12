//! The overlay as a program: nodes that find each other through bad links, many sessions, and the command line.

mod chaos;
mod conditions;
mod drain;
mod links;
mod node;
mod operator;
mod overload;
mod publisher;
mod quota;
mod reader_killed;
mod relay;
mod resume;
mod sessions;
mod shell;
mod stopped_peer;
mod transports;
mod upgrade;
