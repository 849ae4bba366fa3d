// An application that sends each request's body to a queue. It does not know where the queue is.

export default {
  async fetch(request, env) {
    try {
      await env.ORDERS.send({ order: await request.text() });
    } catch (error) {
      return new Response(`The order was not sent: ${error.message}\n`, { status: 500 });
    }
    return new Response("The order was sent.\n", { status: 202 });
  },
};
