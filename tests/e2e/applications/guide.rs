//! The pages of the guide, in a real browser, as they are printed there.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use super::{Events, TopicNode, bearer};
use crate::support::{PATIENCE, eventually_within, free_port, get};

/// A program that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The block of code that the guide has behind this text.
fn printed(after: &str, language: &str) -> String {
    let guide = fs::read_to_string(root().join("docs/guide/chat.md")).unwrap();
    let rest = guide.split_once(after).unwrap_or_else(|| panic!("the guide has no {after}")).1;
    let rest = rest.split_once(&format!("```{language}\n")).expect("a block follows").1;
    rest.split_once("```").expect("it ends").0.to_owned()
}

/// A node as in the guide, and a server of pages as there, in a folder that has the library.
struct Stage {
    node: TopicNode,
    pages: SocketAddr,
    folder: PathBuf,
    _server: Running,
}

impl Stage {
    fn new() -> Self {
        let port = free_port();
        let pages: SocketAddr = ([127, 0, 0, 1], port).into();
        let node =
            TopicNode::with_tokens(&format!("publish_rps = 0\nallow_origins = [\"http://{pages}\"]\n"));
        let folder = node.node.path().join("pages");
        fs::create_dir(&folder).unwrap();
        fs::copy(root().join("clients/js/omnigate.js"), folder.join("omnigate.js")).unwrap();
        let mut server = Command::new("python3");
        let server = server
            .args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()])
            .current_dir(&folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Running(server.spawn().unwrap());
        eventually_within(PATIENCE, "pages are served", || get(pages, "/omnigate.js").ok());
        Self { node, pages, folder, _server: server }
    }

    /// Opens a page in a browser, which a visitor's script uses.
    fn browse(&self, page: &str, token: &str, visitor: &str) -> Running {
        let name = "page.html";
        fs::write(self.folder.join(name), format!("{page}\n<script type=\"module\">{visitor}</script>\n"))
            .unwrap();
        let profile = self.node.node.path().join("profile");
        let mut browser = Command::new("chromium");
        let browser = browser
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("http://{}/{name}?node={}#{token}", self.pages, self.node.api))
            .env("HOME", self.node.node.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(browser.spawn().expect("chromium comes with Debian"))
    }

    fn wait_for_subscribers(&self, count: f64) {
        // A browser takes long to start where many do.
        eventually_within(std::time::Duration::from_secs(300), "the page subscribes", || {
            (self.node.node.metric("api_subscribers{") >= count).then_some(())
        });
    }
}

/// A visitor that answers what it reads, by the form.
const ANSWERS: &str = r#"
  const form = document.querySelector("form");
  const watch = new MutationObserver(() => {
    if (!document.querySelector("ul").innerText.includes("kitchen – Tester: <b>hello</b>")) return;
    watch.disconnect();
    form.elements.room.value = "garden";
    form.elements.name.value = "Browser";
    form.elements.text.value = "I read you";
    form.requestSubmit();
  });
  watch.observe(document.querySelector("ul"), { childList: true });
"#;

#[test]
fn two_people_chat_by_the_page_of_the_guide() {
    let stage = Stage::new();
    let token = stage.node.mint(&["--publish", "chat.>", "--subscribe", "chat.>"]);
    let mut heard = Events::open(stage.node.api, "chat.garden/events", &bearer(&token));
    let _browser = stage.browse(&printed("Save as `chat.html`", "html"), &token, ANSWERS);
    stage.wait_for_subscribers(2.0);
    let said = r#"{"name":"Tester","text":"<b>hello</b>"}"#;
    assert_eq!(stage.node.post("chat.kitchen", said, &bearer(&token)).status, 200);
    let answer: serde_json::Value = serde_json::from_str(&heard.text()).unwrap();
    assert_eq!((&answer["name"], &answer["text"]), (&"Browser".into(), &"I read you".into()));
}

/// A visitor that reports what the board shows once it has both machines.
const REPORTS: &str = r##"
  const params = new URLSearchParams(location.search);
  const watch = new MutationObserver(() => {
    const shown = document.querySelector("dl").innerText.replaceAll(/\s+/g, " ");
    if (!shown.includes("db 0.50") || !document.querySelector("#state").innerText.includes("2 machines")) return;
    watch.disconnect();
    const values = [...document.querySelectorAll("meter")].map((meter) => meter.value).sort();
    fetch(`http://${params.get("node")}/v1/topics/report`, {
      method: "POST", body: JSON.stringify(values), headers: { authorization: `Bearer ${location.hash.slice(1)}` },
    });
  });
  watch.observe(document.body, { childList: true, subtree: true, characterData: true });
"##;

#[test]
fn figures_of_machines_are_shown_by_the_page_of_the_guide() {
    let stage = Stage::new();
    let board = stage.node.mint(&["--publish", "report", "--subscribe", "metrics.>,report"]);
    let sensor = stage.node.mint(&["--publish", "metrics.>"]);
    let mut report = Events::open(stage.node.api, "report/events", &bearer(&board));
    let _browser = stage.browse(&printed("Save as `board.html`", "html"), &board, REPORTS);
    stage.wait_for_subscribers(2.0);
    // The sensor of the guide is one machine, and this test another.
    let folder = stage.node.node.path();
    fs::write(folder.join("sensor.py"), printed("Save as `sensor.py`", "python")).unwrap();
    fs::write(folder.join("sensor.token"), &sensor).unwrap();
    let mut python = Command::new("python3");
    let python = python
        .args(["sensor.py", &format!("http://{}", stage.node.api), "sensor.token", "here"])
        .current_dir(folder)
        .env("PYTHONPATH", root().join("clients/python"));
    let _sensor = Running(python.spawn().unwrap());
    assert_eq!(stage.node.post("metrics.db.load", "0.50", &bearer(&sensor)).status, 200);
    let shown: Vec<f64> = serde_json::from_str(&report.text()).unwrap();
    assert!(shown.len() == 2 && shown.contains(&0.5), "{shown:?}");
}
