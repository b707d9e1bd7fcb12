// The console in a real browser, before a real node that is being flooded.
//
//   node tests/console/console.mjs NODE_PACKAGES OMNIGATE FOLDER_FOR_PICTURES

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

import { checkProofs } from "./proofs.mjs";
import { contrasts, faults } from "./look.mjs";
import { Demo, itShowsWhatWasPaidAndChecksIt } from "./payouts.mjs";
import { Stage, eventually, pause } from "./stage.mjs";

const [packages, program, pictures] = process.argv.slice(2).map((path) => resolve(path));
const { chromium } = createRequire(join(packages, "package.json"))("playwright-core");
const TOKEN = "a-token-that-is-long-enough";
const VIEWS = ["overview", "topology", "tenants", "upstreams", "edge", "overlay", "rewards", "config"];
const SIZES = { desk: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

mkdirSync(pictures, { recursive: true });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

/** A page whose every complaint is kept. */
async function open(options) {
  const context = await browser.newContext({ viewport: SIZES.desk, ...options });
  const page = await context.newPage();
  const complaints = [];
  page.on("console", (message) => { if (["error", "warning"].includes(message.type())) complaints.push(message.text()); });
  page.on("pageerror", (error) => complaints.push(String(error)));
  return { page, complaints };
}

const go = async (page, view) => {
  await page.evaluate((name) => { location.hash = name; }, view);
  await page.waitForSelector(`#main[data-view=${view}] .card`);
};
const text = (page, selector) => page.locator(selector).first().innerText();

async function looksRight(page, name) {
  await pause(1200);
  await page.screenshot({ path: join(pictures, `${name}.png`), fullPage: true });
  assert.deepEqual(await page.evaluate(faults), [], name);
  assert.deepEqual(await page.evaluate(contrasts), [], name);
}

async function itLoadsAndUpdates(page, stage) {
  const answer = await page.goto(`${stage.url}/`);
  assert.equal(new URL(page.url()).pathname, "/console", "a browser is shown the console");
  const policy = answer.headers()["content-security-policy"];
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  assert.equal(answer.headers()["x-frame-options"], "DENY");
  assert.equal(answer.headers()["x-content-type-options"], "nosniff");
  await page.waitForSelector("#verdict");
  assert.equal(await text(page, "#verdict"), "ready");
  assert.equal(await text(page, "#node"), "harbour");
  const rate = () => text(page, ".tile:has-text('requests') b");
  await eventually("the rate of requests moves", async () => (await rate()) !== "0/s");
}

async function itShowsTheFlood(page) {
  await go(page, "tenants");
  const row = (tenant) => page.locator("tr", { has: page.locator(".tenant", { hasText: new RegExp(`^${tenant}$`) }) });
  await eventually("the flood is refused", async () => /(busy|shed) [\d.]+ ?k?\/s/.test(await row("elephant").innerText()), 40000);
  await eventually("the others are served", async () => /[\d.]+\/s/.test(await row("owl").innerText()));
  // A machine that stands still for a second makes everybody wait; that is over when it moves again.
  await eventually("a tenant inside its share is refused nothing", async () => !/(busy|shed) [\d.]+\/s/.test(await row("mouse").innerText()));
  await go(page, "topology");
  await page.waitForSelector("[data-service=gateway] .queue.dropping[data-queue=work]");
  assert.match(await page.locator("[data-service=gateway] [data-queue=work]").textContent(), /dropped/);
  await go(page, "upstreams");
  await eventually("a breaker opens", async () => /open/.test(await text(page, "[data-key=spare] tbody")));
  await go(page, "edge");
  await eventually("packs are on the map", async () => (await page.locator(".map .pack").count()) === 2);
}

async function itSaysWhatIsWrong(page, stage) {
  await go(page, "overview");
  const conditions = () => page.locator("#main .ready").innerText();
  stage.breakConfig();
  await eventually("the mistake is shown", async () => /bad_reload[^]*no_such_key/.test(await conditions()));
  await looksRight(page, "desk-condition");
  stage.mendConfig();
  await eventually("it is gone", async () => !/bad_reload/.test(await conditions()), 30000);
}

async function itHidesSecrets(page, stage) {
  await go(page, "config");
  await page.getByRole("searchbox").fill("admin.token");
  const table = page.locator(".config tbody");
  // `admin.tokens` is found by the same words.
  await eventually("the setting is found", async () => (await table.locator("tr").count()) === 2);
  assert.match(await table.innerText(), /hidden/);
  const answer = await fetch(`${stage.url}/config`, { headers: { authorization: `Bearer ${TOKEN}` } });
  assert.doesNotMatch(await answer.text(), new RegExp(TOKEN));
}

async function itIsUsedWithKeysAlone(page) {
  await page.reload();
  await page.waitForSelector("#nav a");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.keyboard.press("3");
  await page.waitForSelector("#main[data-view=tenants]");
  await page.locator("#nav a[data-view=topology]").focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector("#main[data-view=topology] summary");
  await page.locator("[data-service=gateway] summary").focus();
  await page.keyboard.press("Enter");
  await pause(2500);
  assert.ok(await page.locator("[data-service=gateway] details").getAttribute("open") !== null, "it stays open while numbers change");
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "SUMMARY", "focus stays while numbers change");
  await page.keyboard.press("?");
  assert.ok(await page.locator("#keys").isVisible());
  await page.keyboard.press("Escape");
  assert.ok(!(await page.locator("#keys").isVisible()));
  await page.keyboard.press("t");
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
  await page.evaluate(() => localStorage.clear());
}

async function itIsForOperatorsAlone(stage) {
  const ask = (path, headers, method) => fetch(`${stage.url}${path}`, { method, headers: { authorization: `Bearer ${TOKEN}`, ...headers } });
  const status = async (...asked) => {
    const answer = await ask(...asked);
    await answer.body?.cancel();
    return answer.status;
  };
  for (const path of ["/console/live", "/config", "/topology", "/metrics"]) {
    assert.equal(await status(path, { authorization: "" }), 401, path);
    assert.equal(await status(path, { origin: "http://elsewhere.example" }), 403, path);
    assert.equal(await status(path, {}), 200, path);
  }
  assert.equal(await status("/shutdown", {}, "POST"), 403, "a change needs to be meant");
  assert.equal(await status("/shutdown", { "x-omnigate": "1", origin: "http://elsewhere.example" }, "POST"), 403);
  assert.equal(await status("/console/../../omnigate.toml", {}), 404);
}

async function theTokenIsAskedFor(stage) {
  const { page, complaints } = await open();
  await page.goto(`${stage.url}/console`);
  for (const [token, opens] of [["a-token-that-is-not-it", false], [TOKEN, true]]) {
    await page.waitForSelector("#ask[open]");
    await page.locator("#token").fill(token);
    await page.keyboard.press("Enter");
    if (opens) await page.waitForSelector("#verdict");
  }
  await itHidesSecrets(page, stage);
  assert.deepEqual(complaints.filter((text) => !text.includes("401")), []);
  await page.context().close();
}

async function allSizesLookRight(page, views, prefix = "") {
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme });
      for (const view of views) {
        await go(page, view);
        await looksRight(page, `${prefix}${size}-${colorScheme}-${view}`);
      }
    }
  }
}

async function theDrainIsShown(page, stage) {
  await page.setViewportSize(SIZES.desk);
  await go(page, "overview");
  const ended = stage.stop();
  await eventually("the page notices", async () => /draining|lost/.test(await text(page, "#state")));
  assert.equal(await ended, 0, "a viewer does not hold the drain up");
}

checkProofs();
const locked = await Stage.start(program, { token: TOKEN });
await itIsForOperatorsAlone(locked);
await theTokenIsAskedFor(locked);
assert.equal(await locked.stop(), 0);

const stage = await Stage.start(program, { everything: true });
const stops = [stage.ask(10, "mouse"), stage.ask(20, "owl"), stage.ask(5, null), stage.ask(10, "mouse", "/spare"),
  stage.ask(20, null, "/edge/tiles/world/1/0/1", stage.edge), stage.ask(5, null, "/edge/tiles/world/1/9/9", stage.edge)];
const { page, complaints } = await open();
await itLoadsAndUpdates(page, stage);
stops.push(stage.ask(300, "elephant"));
await itShowsTheFlood(page);
await allSizesLookRight(page, VIEWS);
await page.setViewportSize(SIZES.desk);
await itIsUsedWithKeysAlone(page);
await itSaysWhatIsWrong(page, stage);
assert.deepEqual(complaints, [], "the browser has nothing to complain about");
stops.forEach((stop) => stop());
await theDrainIsShown(page, stage);

const demo = await Demo.start(program);
const paid = await open();
await itShowsWhatWasPaidAndChecksIt(paid.page, demo, go);
await allSizesLookRight(paid.page, ["overlay", "rewards"], "paid-");
// It was asked for a name that nobody has.
assert.deepEqual(paid.complaints.filter((text) => !text.includes("404")), [], "nor about payouts");
await demo.stop();
await browser.close();
console.log("the console holds");
