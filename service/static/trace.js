// The trace page: events come as one scrolls, at most a thousand rows at a time; keys; one event shown in place.
// Without this script the same page has links for all of it.
"use strict";
(() => {
  const table = document.querySelector("#facts table");
  const box = document.getElementById("facts");
  const keys = document.getElementById("keys");
  document.getElementById("keys-hint").hidden = false;
  box.classList.add("windowed");
  const MOST = 5; // pages of 200 rows
  let busy = false;

  const address = (more) => {
    const query = new URLSearchParams(location.search);
    for (const name of ["from", "fact", "waterfall"]) query.delete(name);
    for (const [name, value] of Object.entries({ part: "true", ...more })) query.set(name, value);
    return `${location.pathname}?${query}`;
  };
  async function fetched(more) {
    const answer = await fetch(address(more), { headers: { accept: "text/html" } });
    if (!answer.ok) throw new Error(String(answer.status));
    return new DOMParser().parseFromString(await answer.text(), "text/html");
  }
  async function extend(at, name) {
    const body = at === "end" ? table.tBodies[table.tBodies.length - 1] : table.tBodies[0];
    if (busy || !body || body.dataset[name] === undefined) return;
    busy = true;
    try {
      const page = await fetched({ from: body.dataset[name] });
      const fresh = page.querySelector("tbody");
      if (at === "end") {
        table.append(fresh);
        if (table.tBodies.length > MOST && table.tBodies[0].dataset.from !== undefined && !address({}).includes("q=")) {
          const gone = table.tBodies[0].offsetHeight;
          table.tBodies[1].dataset.before = table.tBodies[0].dataset.from;
          table.tBodies[0].remove();
          box.scrollTop -= gone;
        }
      } else {
        // What it repeats of the first page is there already.
        for (const row of [...fresh.rows]) if (document.getElementById(row.id)) row.remove();
        body.before(fresh);
        box.scrollTop += fresh.offsetHeight;
        delete body.dataset.before;
        while (table.tBodies.length > MOST) {
          const last = table.tBodies[table.tBodies.length - 1];
          table.tBodies[table.tBodies.length - 2].dataset.next = last.dataset.from;
          last.remove();
        }
      }
    } finally {
      busy = false;
    }
  }
  const near = () => {
    if (box.scrollTop + box.clientHeight > box.scrollHeight - 600) extend("end", "next");
    else if (box.scrollTop < 300) extend("start", "before");
  };
  box.addEventListener("scroll", near, { passive: true });
  document.getElementById("more")?.parentElement.remove();

  const links = () => [...table.querySelectorAll("tbody tr[id] a")];
  const rowOf = (link) => link.closest("tr");
  async function toggle(link) {
    const row = rowOf(link);
    const next = row.nextElementSibling;
    if (next?.classList.contains("shown")) { next.remove(); return; }
    const page = await fetched({ fact: row.id.slice(5) });
    const shown = document.createElement("tr");
    shown.className = "shown";
    const cell = shown.insertCell();
    cell.colSpan = 4;
    cell.append(...page.body.childNodes);
    row.after(shown);
    history.replaceState(null, "", `#${row.id}`);
  }
  table.addEventListener("click", (event) => {
    const row = event.target.closest("tr[id]");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey || getSelection().toString()) return;
    event.preventDefault();
    row.querySelector("a").focus();
    toggle(row.querySelector("a"));
  });
  const step = (by, only) => {
    const all = links().filter((link) => !only || rowOf(link).classList.contains("failed"));
    const at = links().indexOf(document.activeElement);
    const from = at < 0 ? -1 : at;
    const numbered = all.map((link) => [links().indexOf(link), link]);
    const next = by > 0 ? numbered.find(([number]) => number > from) : numbered.findLast(([number]) => number < from);
    next?.[1].focus();
    near();
  };
  const acts = {
    j: () => step(1), k: () => step(-1), n: () => step(1, true), N: () => step(-1, true),
    g: () => { location.search = ""; }, G: () => document.getElementById("last")?.click(),
    "/": () => document.getElementById("q").focus(), "?": () => keys.showModal(),
    w: () => document.getElementById("waterfall") ? document.getElementById("waterfall").scrollIntoView()
      : document.querySelector('a[href="?waterfall=true"]').click(),
    t: () => document.querySelector("h1 a").click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
  });
  const wanted = /^#fact-(\d+)$/.exec(location.hash);
  if (wanted) {
    const row = document.getElementById(location.hash.slice(1));
    if (row) requestAnimationFrame(() => row.scrollIntoView({ block: "center" })); // the list has become a box by now
    else location.replace(`?fact=${wanted[1]}${location.hash}`);
  }
})();
