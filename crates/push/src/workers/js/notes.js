// Says aloud what a queue handler decides, at the moment it does: an acknowledgement holds even when its invocation
// never comes to report it. The lines go to standard output, which Kew reads; nothing the user's code awaits, and
// nothing it replaces later, keeps them back.
const say = console.log.bind(console);
const write = JSON.stringify.bind(JSON);
const note = (what) => say("KEW_NOTE_TOKEN " + write(what));
const seconds = (options) => {
  // As the runtime reads it: what is no number counts as none.
  const given = options?.delaySeconds;
  return given === undefined || given === null ? undefined : Number(given) || 0;
};

function observe(target, name, what) {
  const own = target[name];
  Object.defineProperty(target, name, {
    configurable: true,
    writable: true,
    value(...given) {
      const result = own.apply(target, given);
      try {
        note(what(given[0]));
      } catch {
        // What cannot be noted still counts: the runtime knows it.
      }
      return result;
    },
  });
}

function observed(batch) {
  const messages = batch.messages;
  const first = messages[0]?.id;
  observe(batch, "ackAll", () => ({ batch: first, ackAll: true }));
  observe(batch, "retryAll", (options) => ({ batch: first, retryAll: true, delay: seconds(options) }));
  for (const message of messages) {
    const id = message.id;
    observe(message, "ack", () => ({ batch: first, ack: id }));
    observe(message, "retry", (options) => ({ batch: first, retry: id, delay: seconds(options) }));
  }
  return batch;
}

// Calls the user's handler and says aloud what it throws, in a few words: the result of the invocation says only that it
// threw. What comes back and what is thrown stay as they are.
function told(batch, call) {
  const first = batch.messages[0]?.id;
  const thrown = (error) => {
    try {
      note({ batch: first, threw: String(error).slice(0, 200) });
    } catch {
      // What cannot be written as a text is not told.
    }
    throw error;
  };
  try {
    const result = call(observed(batch));
    return typeof result?.then === "function" ? result.then(undefined, thrown) : result;
  } catch (error) {
    return thrown(error);
  }
}

// The user's default export with its queue handler wrapped, and whether there is one said aloud: an object of handlers, or
// a class of an entry point. Of a class that has none among its methods nothing is said: each instance may have its own.
export function watched(inner) {
  if (typeof inner === "function" && typeof inner.prototype?.queue === "function") {
    note({ handler: true });
    return class extends inner {
      queue(batch) {
        return told(batch, (observed) => super.queue(observed));
      }
    };
  }
  if (typeof inner === "object" && inner !== null && typeof inner.queue === "function") {
    note({ handler: true });
    const queue = (batch, env, ctx) => told(batch, (observed) => inner.queue(observed, env, ctx));
    return Object.create(inner, { queue: { enumerable: true, value: queue } });
  }
  if (typeof inner !== "function") note({ handler: false });
  return inner;
}
