// Live pages: a page that carries data-follow is told of each new fact and fetches its own content anew, at most twice
// a second. Without this script the page is complete, only not live.
"use strict";
(() => {
  const root = document.documentElement;
  const chosen = localStorage.getItem("theme");
  if (chosen) root.dataset.theme = chosen;
  const theme = document.getElementById("theme");
  if (theme) {
    theme.hidden = false;
    theme.addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      localStorage.setItem("theme", root.dataset.theme = dark ? "light" : "dark");
    });
  }
  if (navigator.clipboard) root.classList.add("copies"); // not where the address is neither TLS nor this machine
  document.addEventListener("click", async (event) => {
    if (!event.target.matches?.(".copy")) return;
    await navigator.clipboard.writeText(event.target.previousElementSibling.textContent);
    event.target.textContent = "Copied";
  });
  const here = location.pathname;
  const within = (link) => link.pathname === "/" ? here === "/" || here.startsWith("/tasks") : here.startsWith(link.pathname);
  for (const link of document.querySelectorAll("header nav a")) if (within(link)) link.setAttribute("aria-current", "page");
})();
(() => {
  const live = document.querySelector("[data-follow], [data-refresh]");
  if (!live) return;
  const status = document.getElementById("live-status");
  const say = (text) => { if (status) status.textContent = text; };
  let pending = false, again = false;
  // What the reader did stays: folds, ticks, choices, what was typed, focus, selection, scrolled boxes.
  const kept = (name, node) => !(name === "checked" || name === "selected" || (name === "open" && node.tagName === "DETAILS")
    || (name === "value" && "defaultValue" in node && node.value !== node.defaultValue));
  async function take(signal) {
    const wanted = location.href;
    const answer = await fetch(wanted, { headers: { accept: "text/html" }, signal });
    if (answer.status === 422) return; // a filter that is still being written
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (location.href !== wanted) return;
    Idiomorph.morph(live, [...page.getElementById(live.id).childNodes], {
      morphStyle: "innerHTML", ignoreActiveValue: true, callbacks: { beforeAttributeUpdated: kept },
    });
  }
  async function renew() {
    again = pending; // what came meanwhile is fetched afterwards: no later event may come to tell of it
    if (pending) return;
    pending = true;
    let wait = 500;
    try {
      await take();
    } catch (error) {
      say("connection lost, trying again");
      again = true;
      wait = 2000;
    } finally {
      setTimeout(() => { pending = false; if (again) renew(); }, wait);
    }
  }
  const filter = document.querySelector("form.filter");
  if (filter && live.dataset.refresh) { // a list follows what is typed; Enter tells what is wrong with it
    let typed = new AbortController();
    filter.addEventListener("input", () => {
      typed.abort();
      typed = new AbortController();
      history.replaceState(null, "", `?${new URLSearchParams(new FormData(filter))}`);
      take(typed.signal).catch(() => {}); // the next letter or renewal asks again
    });
  }
  if (live.dataset.refresh) {
    setInterval(renew, Number(live.dataset.refresh));
    return;
  }
  const source = new EventSource(live.dataset.follow);
  let timer = null;
  const ticking = setInterval(renew, 2000); // time and tool calls go on without events
  source.addEventListener("fact", () => {
    say("live");
    clearTimeout(timer);
    timer = setTimeout(renew, 150);
  });
  source.addEventListener("end", () => { source.close(); clearInterval(ticking); say("ended"); setTimeout(renew, 600); });
  source.onerror = () => say("connection lost, trying again");
})();
