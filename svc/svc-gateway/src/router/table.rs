//! Which route a request takes: the longest prefix of whole segments, then the narrowest description. Pure.
//!
//! A tree of segments, walked down as far as the path goes and up again until a route fits. Nothing is allocated, and the
//! time depends on the depth of the routes, not on their number or the length of the path.

use std::{
    borrow::Cow,
    cell::{Cell, OnceCell},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::{
    host::HostPattern,
    narrowing::Narrowing,
    path::{Segments, normal},
    pattern::TooCostly,
};

/// What regular expressions are compared with, and whether that would have taken too long.
#[derive(Debug, Default)]
struct Compared<'a> {
    /// The path as expressions see it, once one has asked for it.
    path: OnceCell<Cow<'a, [u8]>>,
    is_too_costly: Cell<bool>,
}

impl Compared<'_> {
    /// The result of a comparison; one that would take too long counts as none, and is noted.
    fn note(&self, result: Result<bool, TooCostly>) -> bool {
        self.is_too_costly.set(self.is_too_costly.get() || result.is_err());
        result == Ok(true)
    }
}

/// What is known of a request when its route is looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a str,
    /// The host of the request, without its port.
    pub(crate) host: Option<&'a str>,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
}

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Lookup {
    /// The route with this index.
    Found(usize),
    /// There are routes for this path, but not with this method: with these.
    MethodNotAllowed(HeaderValue),
    /// There is no route.
    NotFound,
    /// Comparing the request with the expressions of routes would take too long.
    TooCostly,
}

/// All routes, in a tree by path segments.
#[derive(Debug)]
pub(crate) struct Table {
    /// The first is the root.
    nodes: Vec<Node>,
    routes: Vec<Narrowing>,
    /// Whether any route asks for the host.
    pub(super) wants_host: bool,
    /// Whether any route asks for a header field.
    wants_fields: bool,
}

#[derive(Debug, Default)]
struct Node {
    parent: usize,
    /// The child nodes, sorted by segment.
    children: Vec<(Box<str>, usize)>,
    /// The routes of this path, the most specific first.
    entries: Vec<Entry>,
}

/// A route for one of its hosts, or for any.
#[derive(Debug)]
struct Entry {
    route: usize,
    host: Option<HostPattern>,
}

impl Default for Table {
    fn default() -> Self {
        Self::new([])
    }
}

impl Table {
    /// A table of routes, each a prefix and what narrows it. Of two that are equally narrow the first comes first.
    pub(crate) fn new<'p>(routes: impl IntoIterator<Item = (&'p str, Narrowing)>) -> Self {
        let mut table =
            Self { nodes: vec![Node::default()], routes: Vec::new(), wants_host: false, wants_fields: false };
        for (route, (prefix, narrowing)) in routes.into_iter().enumerate() {
            let node = table.node_for(prefix);
            let hosts: Vec<Option<HostPattern>> = match narrowing.hosts.as_slice() {
                [] => vec![None],
                hosts => hosts.iter().cloned().map(Some).collect(),
            };
            table.wants_host |= hosts[0].is_some();
            table.wants_fields |= narrowing.field_names().next().is_some();
            table.nodes[node].entries.extend(hosts.into_iter().map(|host| Entry { route, host }));
            table.routes.push(narrowing);
        }
        let Self { nodes, routes, .. } = &mut table;
        for node in nodes {
            // Stable: the order of the configuration decides last.
            node.entries.sort_by_key(|e| std::cmp::Reverse(routes[e.route].rank(e.host.as_ref())));
        }
        table
    }

    fn node_for(&mut self, prefix: &str) -> usize {
        let mut node = 0;
        for name in prefix.split('/').filter(|name| !name.is_empty()) {
            node = match self.nodes[node].children.binary_search_by(|(child, _)| (**child).cmp(name)) {
                Ok(found) => self.nodes[node].children[found].1,
                Err(place) => {
                    let new = self.nodes.len();
                    self.nodes[node].children.insert(place, (name.into(), new));
                    self.nodes.push(Node { parent: node, ..Node::default() });
                    new
                }
            };
        }
        node
    }

    /// The route of a request.
    pub(crate) fn find(&self, asked: &Asked<'_>) -> Lookup {
        if !asked.path.starts_with('/') {
            return Lookup::NotFound;
        }
        let ((mut node, mut is_whole), compared) = (self.deepest(asked.path), Compared::default());
        loop {
            match self.choose(&self.nodes[node], asked, is_whole, &compared) {
                // Another route must not get what may be meant for the one that it could not be compared with.
                _ if compared.is_too_costly.get() => return Lookup::TooCostly,
                Lookup::NotFound if node != 0 => (node, is_whole) = (self.nodes[node].parent, false),
                decided => return decided,
            }
        }
    }

    /// A field that makes the choice of a route unclear, if there is one: `is_removed` says that it does not reach servers,
    /// or it has several values where one is compared. All routes of the path and of the paths above it count, because each
    /// of them may be the one that the request is meant to take.
    pub(super) fn unclear_field(
        &self,
        path: &str,
        headers: &HeaderMap,
        is_removed: impl Fn(&HeaderName) -> bool,
    ) -> Option<&HeaderName> {
        if !self.wants_fields {
            return None;
        }
        let (deepest, _) = self.deepest(path);
        let upwards =
            std::iter::successors(Some(deepest), |&node| (node != 0).then(|| self.nodes[node].parent));
        let entries = upwards.flat_map(|node| &self.nodes[node].entries);
        entries.map(|entry| &self.routes[entry.route]).find_map(|route| {
            let removed = || route.field_names().find(|name| is_removed(name));
            route.repeated_field(headers).or_else(removed)
        })
    }

    /// The node furthest down the path, and whether it is that of the whole path.
    fn deepest(&self, path: &str) -> (usize, bool) {
        let mut node = 0;
        for segment in Segments::of(path) {
            let children = &self.nodes[node].children;
            match children.binary_search_by(|(child, _)| segment.compare(child).reverse()) {
                Ok(found) => node = children[found].1,
                Err(_) => return (node, false),
            }
        }
        (node, true)
    }

    /// The narrowest of a node's routes that fits. A route that fits but for the method ends the search here: a
    /// shorter prefix must not get what was not meant for it.
    /// `is_whole` says that the node's path is the whole path of the request.
    fn choose<'a>(&self, node: &Node, asked: &Asked<'a>, is_whole: bool, compared: &Compared<'a>) -> Lookup {
        let fits = |entry: &&Entry| {
            let for_host = |pattern: &HostPattern| asked.host.is_some_and(|host| pattern.covers(host));
            let route = &self.routes[entry.route];
            entry.host.as_ref().is_none_or(for_host)
                && compared.note(route.fits(asked.headers))
                && (is_whole || !route.is_whole_path)
                && compared.note(route.fits_path(|| compared.path.get_or_init(|| normal(asked.path))))
        };
        let mut fitting = node.entries.iter().filter(fits).peekable();
        if fitting.peek().is_none() {
            return Lookup::NotFound;
        }
        match fitting.find(|entry| self.routes[entry.route].allows(asked.method)) {
            Some(entry) => Lookup::Found(entry.route),
            None => {
                let fitting = node.entries.iter().filter(fits);
                Lookup::MethodNotAllowed(allow(fitting.flat_map(|entry| self.routes[entry.route].allowed())))
            }
        }
    }
}

/// The value of `Allow`.
fn allow<'m>(methods: impl Iterator<Item = &'m Method>) -> HeaderValue {
    let mut names: Vec<_> = methods.map(Method::as_str).collect();
    names.sort_unstable();
    names.dedup();
    HeaderValue::from_str(&names.join(", ")).unwrap_or_else(|_| HeaderValue::from_static(""))
}
