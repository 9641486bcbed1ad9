//! A headless Chromium, driven by its DevTools protocol over two pipes: messages are JSON, each
//! ended by a zero byte.

use crate::common::Scratch;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What the browser may be called.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// How long a page may take to be there before a test gives up. Not what is measured.
const PATIENCE: Duration = Duration::from_secs(60);

/// One browser with one page.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The page's session.
    session: Option<String>,
    last: u64,
    /// What the page reported since it was opened.
    events: Vec<Value>,
    /// Where the browser keeps its files.
    _home: Scratch,
}

/// The browser of this host, where there is one that starts: Ubuntu's `chromium-browser` may be a
/// script that only says where to get it.
pub(crate) fn installed() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let paths = std::env::split_paths(&folders).flat_map(|it| NAMES.map(|name| it.join(name)));
    let starts = |path: &PathBuf| {
        let mut asked = Command::new(path);
        asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        asked.status().is_ok_and(|status| status.success())
    };
    paths.into_iter().find(|path| path.is_file() && starts(path))
}

impl Browser {
    /// Starts it.
    pub(crate) fn start(program: &Path) -> Self {
        let home = Scratch::new();
        // It reads what it is to do from descriptor 3 and writes to 4. Its sandbox takes rights
        // that a container may not have; the pages are our own.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh"])
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let output = BufReader::new(output);
        let (session, events) = (None, Vec::new());
        let mut browser = Self { child, input, output, session, last: 0, events, _home: home };
        let targets = browser.call("Target.getTargets", json!({}));
        let targets = targets["targetInfos"].as_array().unwrap().clone();
        let page = targets.iter().find(|it| it["type"] == "page").unwrap();
        let attach = json!({ "targetId": page["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(Into::into);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Asks for something and waits for the answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        self.input.write_all(format!("{message}\0").as_bytes()).unwrap();
        self.input.flush().unwrap();
        loop {
            let mut bytes = Vec::new();
            let read = self.output.read_until(0, &mut bytes).unwrap();
            assert!(read > 0, "the browser is gone during {method}");
            let mut said: Value = serde_json::from_slice(&bytes[..bytes.len() - 1]).unwrap();
            if said["id"] == self.last {
                assert!(said["error"].is_null(), "{method}: {}", said["error"]);
                return said["result"].take();
            }
            self.events.push(said);
        }
    }

    /// The value of an expression in the page; promises are waited for.
    pub(crate) fn ask(&mut self, expression: &str) -> Value {
        let asked = json!({
            "expression": expression, "awaitPromise": true, "returnByValue": true,
        });
        let mut answer = self.call("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer:#}");
        answer["result"]["value"].take()
    }

    /// A window of so many pixels, light or dark.
    pub(crate) fn window(&mut self, width: u32, height: u32, theme: &str) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        // Without motion: what a click scrolls to is there at once.
        let features = json!([
            { "name": "prefers-color-scheme", "value": theme },
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Opens a page of ours and waits until it has drawn itself.
    pub(crate) fn open(&mut self, page: &Path) {
        self.events.clear();
        let url = format!("file://{}", page.display());
        self.call("Page.navigate", json!({ "url": url }));
        let begun = Instant::now();
        let ready = "document.readyState === 'complete' && Boolean(window.maracas)";
        while self.ask(ready) != true {
            assert!(begun.elapsed() < PATIENCE, "{url} does not draw itself: {:?}", self.wrong());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.drawn();
    }
    /// Waits until what was asked for is on the screen.
    pub(crate) fn drawn(&mut self) {
        let frame =
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";
        self.ask(&format!("{frame}.then(() => true)"));
    }

    /// Errors and warnings of the page, and requests for anything but itself, since it was opened.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let problem = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Log.entryAdded" => Some(params["entry"].to_string()),
                "Runtime.consoleAPICalled" => Some(params["args"].to_string()),
                "Network.requestWillBeSent" if params["type"] != "Document" => {
                    Some(params["request"]["url"].to_string())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(problem).collect()
    }
    /// How many requests were sent, that for the page itself among them.
    pub(crate) fn requests(&self) -> usize {
        let sent = |event: &&Value| event["method"] == "Network.requestWillBeSent";
        self.events.iter().filter(sent).count()
    }

    /// Clicks into the middle of the element that `selector` finds.
    pub(crate) fn click(&mut self, selector: &str) {
        let place = format!(
            "(() => {{ const it = document.querySelector({selector:?}); \
             it.scrollIntoView({{ block: 'center', behavior: 'instant' }}); \
             const box = it.getBoundingClientRect(); \
             return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        );
        let place = self.ask(&place);
        self.mouse("mousePressed", &place, json!({ "button": "left", "clickCount": 1 }));
        self.mouse("mouseReleased", &place, json!({ "button": "left", "clickCount": 1 }));
        self.drawn();
    }
    /// Has the mouse do something at a place.
    pub(crate) fn mouse(&mut self, kind: &str, place: &Value, mut more: Value) {
        more["type"] = kind.into();
        (more["x"], more["y"]) = (place[0].clone(), place[1].clone());
        self.call("Input.dispatchMouseEvent", more);
    }
    /// Presses a key; `text` is what it types.
    pub(crate) fn key(&mut self, key: &str, text: &str) {
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({ "type": kind, "key": key });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", event);
        }
        self.drawn();
    }

    /// A picture of what the window shows, as PNG in base64.
    pub(crate) fn picture(&mut self) -> String {
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        picture["data"].as_str().unwrap().into()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
