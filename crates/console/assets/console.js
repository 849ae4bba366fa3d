// The console's only script: live figures, countdowns, copies. Every page can be read and every form sent without it.
"use strict";

/** Figures of the page by the names that events give them. */
const found = (attribute) => {
  const elements = new Map();
  for (const element of document.querySelectorAll(`[${attribute}]`)) {
    elements.set(element.getAttribute(attribute), element);
  }
  return elements;
};

/** A server that is there answers a request for an event within 8 s. */
const HEARD_WITHIN_MS = 12000;
const ASKED_SOON_MS = 2000;
const ASKED_LATER_MS = 10000;

/** Why no figures come from an address: words for the page, when to ask again, whether signing in helps. */
const reasonOf = async (address) => {
  const signal = AbortSignal.timeout(HEARD_WITHIN_MS);
  const status = await fetch(address, { signal }).then((reply) => reply.status, () => 0);
  if (status === 0) return { words: "the server does not answer", againInMs: ASKED_LATER_MS };
  if (status === 200) return { againInMs: ASKED_SOON_MS };
  if (status === 401) return { words: "you are signed out", needsSignIn: true };
  if (status === 404) return { words: "this is gone" };
  if (status >= 500) return { words: "not available now", againInMs: ASKED_LATER_MS };
  return { words: "load the page again" };
};

/** Keeps the figures of a page fresh until it is paused, hidden or left. */
const watch = (address) => {
  const [texts, points] = [found("data-live"), found("data-points")];
  const pulse = document.querySelector(".pulse");
  const [button, at, state] = ["data-pulse", "data-pulse-at", "data-pulse-state"].map((name) =>
    pulse.querySelector(`[${name}]`));
  const stale = document.querySelector("[data-stale]");
  let source = null;
  // Asks again, or gives up, when its time has come.
  let timer = 0;
  // When the last event came, or the first was asked for; how often the browser asked in vain since.
  let [heardAt, failures] = [0, 0];

  const take = (event) => {
    [heardAt, failures] = [performance.now(), 0];
    clearTimeout(timer);
    timer = setTimeout(lose, HEARD_WITHIN_MS);
    const news = JSON.parse(event.data);
    for (const [name, text] of Object.entries(news.texts)) {
      const element = texts.get(name);
      if (element && element.textContent !== text) element.textContent = text;
    }
    for (const [name, line] of Object.entries(news.points)) {
      points.get(name)?.setAttribute("points", line);
    }
    if (stale && news.queues) {
      const isSame = news.queues.length === points.size && news.queues.every((queue) => points.has(queue));
      stale.hidden = isSame;
    }
    // Once it has changed it may only look the same again.
    if (stale && news.mark && news.mark !== stale.dataset.stale) stale.hidden = false;
    at.textContent = `as of ${new Date().toLocaleTimeString()}`;
    if (state.textContent.startsWith("not live")) state.textContent = "";
  };
  const say = ({ words, needsSignIn }) => {
    const text = `not live: ${words}`;
    if (state.textContent !== text) state.textContent = text;
    at.textContent = text;
    if (!needsSignIn) return;
    const link = document.createElement("a");
    [link.href, link.textContent] = [location.href, "Sign in"];
    at.append(". ", link);
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  // Nothing came: a server that is away is not asked five times a second, as the browser would by itself.
  const lose = () => {
    close();
    const isLost = performance.now() - heardAt >= HEARD_WITHIN_MS;
    if (isLost) say({ words: "the server does not answer" });
    timer = setTimeout(connect, isLost ? ASKED_LATER_MS : ASKED_SOON_MS);
  };
  // The server refused; why, a source does not say.
  const explain = async () => {
    const refused = source;
    const reason = await reasonOf(address);
    if (source !== refused) return;
    close();
    if (reason.words) say(reason);
    if (reason.againInMs) timer = setTimeout(connect, reason.againInMs);
  };
  const connect = () => {
    source = new EventSource(address);
    timer = setTimeout(lose, HEARD_WITHIN_MS);
    source.onmessage = take;
    source.onerror = () => {
      if (source?.readyState === EventSource.CLOSED) {
        clearTimeout(timer);
        explain();
        return;
      }
      // Each event ends its reply, so one error follows each; a further one is a request that was not answered.
      failures += 1;
      if (failures > 1) lose();
    };
  };
  const open = () => {
    if (source || document.hidden || button.getAttribute("aria-pressed") === "true") return;
    clearTimeout(timer);
    [heardAt, failures] = [performance.now(), 0];
    connect();
  };

  button.addEventListener("click", () => {
    const isPaused = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(isPaused));
    state.textContent = isPaused ? "Live figures are paused." : "Live figures go on.";
    if (isPaused) close(); else open();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  pulse.hidden = false;
  open();
};

/** How far an instant that is to come is, in the words of the server. */
const distance = (seconds) => {
  const left = Math.ceil(seconds);
  const parts = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"], [1, "s", 0, ""]];
  const [unit, name, small, smallName] = parts.find(([size]) => left >= size);
  const rest = small ? Math.floor((left % unit) / small) : 0;
  const length = `${Math.floor(left / unit)} ${name}${rest ? ` ${rest} ${smallName}` : ""}`;
  return `in ${length}`;
};

/** Counts remaining times down, by the server's clock at the time of the page. */
const countDown = () => {
  const elements = document.querySelectorAll("[data-until]");
  if (!elements.length) return;
  const begun = performance.now();
  setInterval(() => {
    if (document.hidden) return;
    for (const element of elements) {
      const left = element.dataset.until - element.dataset.now - (performance.now() - begun);
      element.textContent = left > 0 ? distance(left / 1000) : (element.dataset.over ?? "over; load again");
    }
  }, 1000);
};

/** Offers to copy what stands beside a button. */
const copies = () => {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
  }
};

/** A button that cannot be undone waits for the name to be typed. */
const confirmations = () => {
  for (const input of document.querySelectorAll("[data-confirm]")) {
    const button = input.form.querySelector("button");
    const judge = () => (button.disabled = input.value.trim() !== input.dataset.confirm);
    input.addEventListener("input", judge);
    judge();
  }
};

/** Sends no empty field of a search, so that addresses stay short. */
const searches = () => {
  for (const form of document.querySelectorAll("form.filter")) {
    form.addEventListener("submit", () => {
      for (const field of form.elements) {
        if (field.name && (!field.value || (field.name === "state" && field.value === "any"))) field.disabled = true;
      }
    });
    addEventListener("pageshow", () => {
      for (const field of form.elements) field.disabled = false;
    });
  }
};

/** Loads the page again, and says that no person asks: that keeps no session in use. */
const reload = () => {
  document.cookie = `kew_reloaded=1; Path=${location.pathname}; Max-Age=2; SameSite=Strict`;
  location.reload();
};

/** Loads a page again whose task is still running, unless somebody is busy in it; where something is due, then too. */
const refreshes = () => {
  const running = document.querySelector("[data-refresh]");
  if (!running) return;
  setInterval(() => {
    const focus = document.activeElement;
    if (!document.hidden && (focus === document.body || focus.id === "content")) reload();
  }, running.dataset.refresh * 1000);
  if (running.dataset.due) setTimeout(reload, Number(running.dataset.due) + 500);
};

/** What can be chosen on this page: its screens, its parts, and buttons that change nothing but how it looks. */
const choices = () => {
  const links = [...document.querySelectorAll(".top nav a, main > .tabs a, main .head > a.button")];
  const buttons = [...document.querySelectorAll(".theme button, .pulse:not([hidden]) button")];
  return [
    ...links.map((link) => ({ name: link.textContent.trim(), go: () => link.click() })),
    ...buttons.map((button) => ({
      name: (button.name === "theme" ? "Colours: " : "") + button.textContent.trim(),
      go: () => button.click(),
    })),
  ];
};

/** Queues whose names begin so. */
const queuesFrom = async (prefix) => {
  const reply = await fetch(`/api/v1/queues?limit=8&prefix=${encodeURIComponent(prefix)}`);
  if (!reply.ok) return [];
  const { queues } = await reply.json();
  return queues.map(({ queue }) => ({
    name: `Queue ${queue}`,
    go: () => location.assign(`/queues/${encodeURIComponent(queue)}`),
  }));
};

/** Goes anywhere by a few letters: Ctrl+K or the button at the top opens it. */
const palette = () => {
  const dialog = document.querySelector("dialog.palette");
  const opener = document.querySelector("[data-palette]");
  if (!dialog || !opener) return;
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  let [shown, chosen, asked, latest] = [[], 0, 0, null];
  // Whether somebody went through the list since the last letter.
  let isMoved = false;

  const mark = (place) => {
    chosen = Math.max(0, Math.min(place, shown.length - 1));
    [...list.children].forEach((option, number) => option.setAttribute("aria-selected", String(number === chosen)));
    const active = list.children[chosen];
    if (active) input.setAttribute("aria-activedescendant", active.id);
    else input.removeAttribute("aria-activedescendant");
    active?.scrollIntoView({ block: "nearest" });
  };
  const move = (step) => {
    isMoved = true;
    mark(chosen + step);
  };
  const show = (items) => {
    const kept = isMoved ? items.findIndex((item) => item.name === shown[chosen]?.name) : 0;
    shown = items;
    list.replaceChildren(...items.map((item, number) => {
      const option = document.createElement("li");
      option.id = `choice-${number}`;
      option.setAttribute("role", "option");
      option.textContent = item.name;
      option.addEventListener("click", () => go(item));
      return option;
    }));
    mark(kept);
  };
  const search = async () => {
    isMoved = false;
    const text = input.value.trim();
    const own = choices().filter((item) => item.name.toLowerCase().includes(text.toLowerCase()));
    const turn = (asked += 1);
    if (!text) return show(own);
    const queues = await queuesFrom(text).catch(() => []);
    // A later letter was typed meanwhile.
    if (turn === asked) show([...queues, ...own]);
  };
  const go = (item) => {
    dialog.close();
    item.go();
  };
  // Unless another letter came meanwhile, or the dialog was closed.
  const enter = async () => {
    const turn = asked;
    await latest;
    if (turn === asked && dialog.open && shown[chosen]) go(shown[chosen]);
  };
  const open = () => {
    if (dialog.open) return;
    input.value = "";
    dialog.showModal();
    latest = search();
  };

  opener.hidden = false;
  opener.addEventListener("click", open);
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
  input.addEventListener("input", () => (latest = search()));
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) move(step);
    // What was typed last counts, also where its queues are still asked for.
    else if (event.key === "Enter") enter();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
};

/** Single letters lead to links and fields that name them; `?` shows them, and there they can be switched off. */
const shortcuts = () => {
  const dialog = document.querySelector("dialog.keys");
  const opener = document.querySelector("[data-keys]");
  if (!dialog || !opener) return;
  const [list, box] = [dialog.querySelector("dl"), dialog.querySelector("input")];
  const keyed = () => [...document.querySelectorAll("[aria-keyshortcuts]")];
  const isOn = () => localStorage.getItem("kew_keys") !== "off";
  const row = (key, name) => {
    const [entry, term, text, letter] = ["div", "dt", "dd", "kbd"].map((tag) => document.createElement(tag));
    letter.textContent = key;
    term.append(letter);
    text.textContent = name;
    entry.append(term, text);
    return entry;
  };
  const nameOf = (one) => (one.labels?.[0] ?? one).firstChild.textContent.trim() || one.textContent.trim();
  const open = () => {
    const rows = keyed().map((one) => row(one.getAttribute("aria-keyshortcuts"), nameOf(one)));
    list.replaceChildren(...rows, row("Ctrl K", "Go to a screen or a queue"), row("?", "This list"));
    box.checked = isOn();
    dialog.showModal();
  };
  box.addEventListener("change", () => localStorage.setItem("kew_keys", box.checked ? "on" : "off"));
  opener.hidden = false;
  opener.addEventListener("click", open);
  addEventListener("keydown", (event) => {
    // A box that is ticked takes no letters; a closed list's own box keeps the focus until the page is drawn again.
    const isTyped = event.target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select");
    const isOther = event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
    if (isTyped || isOther || !isOn() || document.querySelector("dialog[open]")) return;
    const target = keyed().find((one) => one.getAttribute("aria-keyshortcuts") === event.key);
    if (event.key === "?") open();
    else if (target?.matches("input")) target.focus();
    else if (target) target.click();
    else return;
    event.preventDefault();
  });
};

const stream = document.body.dataset.stream;
if (stream) watch(stream);
countDown();
copies();
refreshes();
confirmations();
searches();
palette();
shortcuts();
