// Keeps the parts marked data-live up to date, and gives the pages their keys. Without it they read the same.
"use strict";

const main = document.getElementById("main");
const offline = document.getElementById("offline");
const keys = document.getElementById("keys");
const rows = () => [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent);
let cursor = null; // the data-row of the row under the cursor
let going = 0; // when "g" was pressed

// --- looking again ---

let every = Number(main.dataset.every) * 1000; // 0 once nothing newer is to come

async function lookAgain() {
  if (document.hidden || keys.open || String(getSelection())) return;
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store", redirect: "manual" });
  if (answer.type === "opaqueredirect") return location.reload(); // signed out: to sign in may lead to another site
  if (answer.status >= 500 && answer.status !== 502) throw new Error(answer.status);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const parts = [...document.querySelectorAll("[data-live]")];
  const isGone = parts.length && !parts.some((part) => page.getElementById(part.id)); // what it showed, or the right to see it
  if (isGone && answer.status < 500) return location.reload();
  if (answer.status < 500) every = Number(page.getElementById("main").dataset.every) * 1000;
  for (const part of parts) {
    const fresh = page.getElementById(part.id);
    if (fresh && fresh.innerHTML !== part.innerHTML) swap(part, fresh);
  }
}

function swap(part, fresh) {
  const checked = new Set([...part.querySelectorAll("input:checked")].map((box) => box.value));
  const open = new Set([...part.querySelectorAll("details[open][id]")].map((each) => each.id));
  const focused = part.contains(document.activeElement) && document.activeElement.closest("[data-row]");
  if (part.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), textarea, select")) return;
  part.replaceChildren(...fresh.childNodes);
  reach();
  for (const box of part.querySelectorAll("input[type=checkbox]")) box.checked = checked.has(box.value);
  for (const each of part.querySelectorAll("details[id]")) each.open = open.has(each.id);
  show(false);
  if (focused) rows().find((row) => row.dataset.row === focused.dataset.row)?.querySelector("a, input")?.focus();
  count();
}

async function keepLooking() {
  try {
    await lookAgain();
    offline.hidden = true;
  } catch {
    offline.hidden = false;
  }
  if (every) setTimeout(keepLooking, every);
}

if (every) setTimeout(keepLooking, every);
document.addEventListener("visibilitychange", () => every && !document.hidden && lookAgain().catch(() => {}));
setInterval(() => {
  for (const age of document.querySelectorAll("[data-age]")) {
    age.dataset.age = Number(age.dataset.age) + 1;
    age.textContent = span(Math.round(age.dataset.age));
  }
}, 1000);

function span(seconds) {
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  return hours ? `${hours}h ${minutes % 60}m` : minutes ? `${minutes}m ${seconds % 60}s` : `${seconds}s`;
}

// What is wider than the screen is scrolled by keyboard too.
function reach() {
  for (const each of document.querySelectorAll(".scroll")) each.tabIndex = each.scrollWidth > each.clientWidth ? 0 : -1;
}

// --- rows ---

function show(scroll) {
  for (const row of rows()) row.classList.toggle("cursor", row.dataset.row === cursor);
  if (scroll) document.querySelector(".cursor")?.scrollIntoView({ block: "nearest" });
}

function move(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.dataset.row === cursor);
  const next = at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
  cursor = all[next].dataset.row;
  show(true);
}

const current = () => rows().find((row) => row.dataset.row === cursor);

function count() {
  const boxes = [...document.querySelectorAll("input[data-one]")];
  const chosen = boxes.filter((box) => box.checked).length;
  for (const each of document.querySelectorAll("[data-count]")) each.textContent = chosen || "";
  for (const each of document.querySelectorAll("[data-needs]")) each.disabled = !chosen;
  for (const each of document.querySelectorAll("input[data-all]")) {
    each.checked = boxes.length > 0 && chosen === boxes.length;
    each.indeterminate = chosen > 0 && chosen < boxes.length;
  }
}

document.addEventListener("change", (event) => {
  if (event.target.matches("input[data-all]"))
    for (const box of document.querySelectorAll("input[data-one]")) box.checked = event.target.checked;
  count();
});

// --- keys ---

function press(name) {
  const target = document.querySelector(`[data-key="${name}"]:not(:disabled)`); // a button or a link
  if (!target) return;
  target.scrollIntoView({ block: "nearest" });
  const field = [...(target.form?.elements ?? [])].find((each) => each.required && !each.value);
  (field ?? target).focus({ focusVisible: true });
  if (!field && !("asks" in target.dataset)) target.click(); // what can't be undone waits for Enter
}

const commands = {
  j: () => move(1),
  k: () => move(-1),
  Enter: () => current()?.querySelector("a")?.click(),
  x: () => current()?.querySelector("input[type=checkbox]")?.click(),
  ...Object.fromEntries(["r", "d", "a", "o"].map((name) => [name, () => press(name)])),
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => keys.showModal(),
  g: () => { going = Date.now(); },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  if (!(event.target instanceof Element)) return;
  if (event.target.matches("input:not([type=checkbox]), textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary, input")) return;
  const link = Date.now() - going < 1500 && document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
  going = 0;
  const command = link ? () => link.click() : Object.hasOwn(commands, event.key) && commands[event.key];
  if (!command) return;
  event.preventDefault();
  command();
});

for (const button of document.querySelectorAll("[data-keys]")) {
  button.hidden = false;
  button.addEventListener("click", () => keys.showModal());
}
reach();
document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
count();
