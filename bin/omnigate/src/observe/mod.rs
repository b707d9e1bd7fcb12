//! What watches a node: a Grafana dashboard and Prometheus alert rules, made from what the services declare.
//!
//! The same declarations always give the same bytes, so a test can compare the committed files with fresh ones, and a
//! metric that is added shows on the dashboard without anybody remembering to.

mod alerts;
mod dashboard;
mod metric;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use ron_kernel::topology::Topology;

/// Name of the dashboard's file.
const DASHBOARD: &str = "omnigate-dashboard.json";
/// Name of the alert rules' file.
const ALERTS: &str = "omnigate-alerts.yml";

/// The files that belong into `dir`.
pub(crate) fn files(dir: &Path, topologies: &[&Topology]) -> Vec<(PathBuf, String)> {
    vec![
        (dir.join(DASHBOARD), dashboard::json(topologies)),
        (dir.join(ALERTS), alerts::yaml(&alerts::of(topologies))),
    ]
}
