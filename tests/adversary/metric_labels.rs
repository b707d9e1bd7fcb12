//! Clients that would read the metrics, or make up series in them: labels name no client, and only the busiest tenants.

use crate::support::{Client, Node, UNLIMITED, Upstream, eventually, free_addr, get};

/// More tenants than have a label.
const TENANTS: usize = 60;
/// How many tenants have one.
const LABELLED: usize = 20;

#[test]
fn clients_make_up_no_series() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"header:x-tenant\", \"ip\"]\n\
         route = [{{ path = \"/\", upstream = \"up\" }}]\nupstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let tenants = |scrape: &str| {
        let lines = scrape.lines().filter(|line| !line.starts_with('#'));
        lines.filter(|line| line.contains("tenant=\"made-up-")).count()
    };
    // A client of the busiest tenants, and of others; from another address than that of the scrape.
    let mut client = Client::connect_from(77, node.gateway).unwrap();
    for nth in 0..TENANTS {
        let request = format!(
            "MADEUP{nth} /made-up-{nth} HTTP/1.1\r\nhost: made-up-{nth}\r\nx-tenant: made-up-{nth}\r\n\r\n"
        );
        client.ask(request).unwrap();
    }
    let scrape = eventually("the busiest tenants are labelled", || {
        let scrape = node.scrape();
        (tenants(&scrape) > 0).then_some(scrape)
    });
    assert_eq!(tenants(&scrape), LABELLED, "{scrape}");
    assert!(scrape.contains("tenant=\"other\""), "{scrape}");
    for made_up in ["MADEUP", "/made-up", "host=\"made-up", "127.0.0.77"] {
        assert!(!scrape.contains(made_up), "{made_up}: {scrape}");
    }
}

#[test]
fn what_a_node_says_of_itself_is_on_the_admin_listener_alone() {
    let (edge, rewarder) = (free_addr(), free_addr());
    let node = Node::start(&format!(
        "[edge]\nenabled = true\nlisten = \"{edge}\"\n[rewarder]\nenabled = true\nlisten = \"{rewarder}\"\n"
    ));
    for path in ["/metrics", "/topology", "/config", "/events", "/console/", "/readyz"] {
        for (name, addr) in [("gateway", node.gateway), ("edge", edge), ("rewarder", rewarder)] {
            assert_eq!(get(addr, path).unwrap().status, 404, "{path} of the {name}");
        }
    }
    for path in ["/metrics", "/topology", "/config"] {
        assert_eq!(get(node.admin, path).unwrap().status, 200, "{path}");
    }
}
