import type { Job } from "bullmq";
import { messageOf } from "../domain/error.ts";
import { cutText } from "../domain/text.ts";
import type { EventBody } from "../domain/turn-event.ts";
import { totalTokens } from "../domain/usage.ts";
import type { Log } from "../telemetry/log.ts";

const EVERY_MS = 1000;
const LAST_CHARS = 100;

/** Writes a turn's progress onto its job, for BullMQ's tools: at most once a second, nothing for turns that are shorter. */
export class Progress {
  readonly #job: Job;
  readonly #attempt: number;
  readonly #log: Log;
  readonly #timer: NodeJS.Timeout;
  #steps = 0;
  #tokens: number | undefined;
  #last = "";
  #changed = false;
  #writing = false;

  constructor(job: Job, attempt: number, log: Log) {
    this.#job = job;
    this.#attempt = attempt;
    this.#log = log;
    this.#timer = setInterval(() => void this.#write(), EVERY_MS);
    this.#timer.unref();
  }

  see(event: EventBody): void {
    this.#changed = true;
    if (event.type === "step_start") this.#steps++;
    else if (event.type === "usage") this.#tokens = totalTokens(event.usage);
    this.#last = lastOf(event);
  }

  end(): void {
    clearInterval(this.#timer);
  }

  async #write(): Promise<void> {
    if (!this.#changed || this.#writing) return;
    this.#changed = false;
    this.#writing = true;
    const progress = {
      attempt: this.#attempt,
      steps: this.#steps,
      ...(this.#tokens === undefined ? {} : { tokens: this.#tokens }),
      last: this.#last,
    };
    try {
      await this.#job.updateProgress(progress);
    } catch (error) {
      this.#log.debug({ job: this.#job.id, error: messageOf(error) }, "progress was not written");
    } finally {
      this.#writing = false;
    }
  }
}

function lastOf(event: EventBody): string {
  if (event.type === "text_delta" || event.type === "thought_delta") return cutText(event.text.trim(), LAST_CHARS);
  return event.type === "tool_start" ? `tool ${cutText(event.name, LAST_CHARS)}` : event.type;
}
