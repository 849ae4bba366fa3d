// A custom handler: one small HTTP server that answers for every function of the project.
// An order such as {"id": 7, "lines": 2} is shipped: a message goes to the queue orders-shipped. One without
// an id fails, and is tried again after the half minute that host.json says. Only Node's own library is needed.
import { createServer } from "node:http";

const functions = {
  "/ShipOrder": async ({ order }, metadata) => {
    // A text arrives as JSON inside a string; this text is JSON itself.
    const { id, lines } = JSON.parse(JSON.parse(order));
    if (id === undefined) throw new Error("an order needs an id");
    return {
      Outputs: { shipped: { id, lines, at: metadata.sys.UtcNow } },
      Logs: [`order ${id} is shipped, try ${metadata.DequeueCount}`],
    };
  },
};

const server = createServer(async (request, response) => {
  const reply = (status, document) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(document));
  };
  try {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.method === "GET") return reply(200, {}); // the host asks whether we are there
    const { Data, Metadata } = JSON.parse(body);
    reply(200, await functions[request.url](Data, Metadata));
  } catch (error) {
    reply(500, { error: error.message }); // any failure: the host makes the message visible again later
  }
});

server.listen(Number(process.env.FUNCTIONS_CUSTOMHANDLER_PORT), "127.0.0.1");
