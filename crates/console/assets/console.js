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

/** Keeps the figures of a page fresh until it is paused, hidden or left. */
const watch = (address) => {
  const [texts, points] = [found("data-live"), found("data-points")];
  const pulse = document.querySelector(".pulse");
  const [button, at, state] = ["data-pulse", "data-pulse-at", "data-pulse-state"].map((name) =>
    pulse.querySelector(`[${name}]`));
  const stale = document.querySelector("[data-stale]");
  let source = null;
  let again = 0;

  const take = (event) => {
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
    at.textContent = `as of ${new Date().toLocaleTimeString()}`;
  };
  const close = () => {
    clearTimeout(again);
    source?.close();
    source = null;
  };
  const open = () => {
    if (source || document.hidden || button.getAttribute("aria-pressed") === "true") return;
    source = new EventSource(address);
    source.onmessage = take;
    source.onerror = () => {
      // A source that asks again by itself is one between two events.
      if (source?.readyState !== EventSource.CLOSED) return;
      close();
      at.textContent = "not live: the server does not answer";
      again = setTimeout(open, 10000);
    };
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

/** How far an instant is, in the words of the server. */
const distance = (seconds) => {
  const left = Math.abs(Math.round(seconds));
  const parts = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"], [1, "s", 0, ""]];
  const [unit, name, small, smallName] = parts.find(([size]) => left >= size) ?? parts[3];
  const rest = small ? Math.floor((left % unit) / small) : 0;
  const length = `${Math.floor(left / unit)} ${name}${rest ? ` ${rest} ${smallName}` : ""}`;
  return seconds > 0 ? `in ${length}` : `${length} ago`;
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
      element.textContent = distance(left / 1000);
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

/** Loads a page again whose task is still running, unless somebody is busy in it. */
const refreshes = () => {
  const running = document.querySelector("[data-refresh]");
  if (!running) return;
  setInterval(() => {
    const focus = document.activeElement;
    if (!document.hidden && (focus === document.body || focus.id === "content")) location.reload();
  }, running.dataset.refresh * 1000);
};

const stream = document.body.dataset.stream;
if (stream) watch(stream);
countDown();
copies();
refreshes();
confirmations();
searches();
