// Takes a batch as JSON, calls the queue handler of the user's Worker, and answers with the runtime's own result; or takes
// a request for its fetch handler; or calls its scheduled handler.
const bytes = (text) => Uint8Array.fromBase64(text);

function message(given) {
  const taken = { id: given.id, timestamp: new Date(given.ts), attempts: given.attempts };
  if (given.type === "v8") taken.serializedBody = bytes(given.b64);
  else if (given.type === "bytes") taken.body = bytes(given.b64);
  else taken.body = given.type === "text" ? given.text : given.json;
  return taken;
}

// Hands a request to the user's fetch handler, as its sender wrote it.
async function visit(request, address, target) {
  const headers = new Headers(request.headers);
  for (const ours of ["x-kew-token", "x-kew-address"]) headers.delete(ours);
  const { method } = request;
  // What a client sends with one of these is no part of the request.
  const body = method === "GET" || method === "HEAD" ? null : request.body;
  try {
    const reply = await target.fetch(new Request(address, { method, headers, body, redirect: "manual" }));
    if (!reply.headers.has("x-kew-threw")) return reply;
    const own = new Response(reply.body, reply);
    own.headers.delete("x-kew-threw");
    return own;
  } catch (error) {
    const what = /does not export a fetch\(\) function/.test(String(error)) ? "no handler" : "exception";
    return new Response(null, { status: 500, headers: { "x-kew-threw": what } });
  }
}

// Calls the user's scheduled handler.
async function scheduled({ cron, at }, target) {
  try {
    const { outcome } = await target.scheduled({ cron, scheduledTime: new Date(at) });
    return new Response(outcome === "ok" ? "ok" : `the scheduled handler ended with: ${outcome}`);
  } catch (error) {
    return new Response(String(error));
  }
}

export default {
  async fetch(request, env) {
    // Nobody else on this machine, and no page in a browser, brings batches here.
    if (request.headers.get("x-kew-token") !== env.TOKEN) return new Response("who are you?", { status: 403 });
    if (new URL(request.url).pathname === "/ready") return new Response("ready");
    const address = request.headers.get("x-kew-address");
    if (address !== null) return visit(request, address, env.TARGET);
    if (new URL(request.url).pathname === "/scheduled") return scheduled(await request.json(), env.TARGET);
    const batch = await request.json();
    try {
      return Response.json(await env.TARGET.queue(batch.queue, batch.messages.map(message), batch.metadata));
    } catch (error) {
      return Response.json({ dispatchError: String(error) }, { status: 502 });
    }
  },
};
