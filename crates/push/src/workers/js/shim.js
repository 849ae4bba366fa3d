// Takes a batch as JSON, calls the queue handler of the user's Worker, and answers with the runtime's own result.
const bytes = (text) => Uint8Array.fromBase64(text);

function message(given) {
  const taken = { id: given.id, timestamp: new Date(given.ts), attempts: given.attempts };
  if (given.type === "v8") taken.serializedBody = bytes(given.b64);
  else if (given.type === "bytes") taken.body = bytes(given.b64);
  else taken.body = given.type === "text" ? given.text : given.json;
  return taken;
}

export default {
  async fetch(request, env) {
    // Nobody else on this machine, and no page in a browser, brings batches here.
    if (request.headers.get("x-kew-token") !== env.TOKEN) return new Response("who are you?", { status: 403 });
    if (new URL(request.url).pathname === "/ready") return new Response("ready");
    const batch = await request.json();
    try {
      return Response.json(await env.TARGET.queue(batch.queue, batch.messages.map(message), batch.metadata));
    } catch (error) {
      return Response.json({ dispatchError: String(error) }, { status: 502 });
    }
  },
};
