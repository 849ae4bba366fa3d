import { backOff } from "./backoff";

interface Order {
  order: number;
  /** An order that cannot be served yet. */
  later?: boolean;
}

interface Env {
  RECEIPTS: { send(body: unknown): Promise<unknown> };
  BASE_DELAY_SECONDS: number;
}

interface Message {
  readonly id: string;
  readonly body: Order;
  readonly attempts: number;
  ack(): void;
  retry(options?: { delaySeconds?: number }): void;
}

export default {
  async queue(batch: { queue: string; messages: Message[] }, env: Env): Promise<void> {
    for (const message of batch.messages) {
      if (message.body.later) {
        message.retry({ delaySeconds: backOff(message.attempts, env.BASE_DELAY_SECONDS) });
        continue;
      }
      await env.RECEIPTS.send({ receipt: message.body.order, attempts: message.attempts });
      // Acknowledged one by one: what comes after may fail without bringing this one back.
      message.ack();
      console.log(`order ${message.body.order} of ${batch.queue} is done`);
    }
  },
};
