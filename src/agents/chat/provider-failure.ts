import type { Failure } from "../../domain/failure.ts";

/** Carries a failure out of a chat turn. */
export class ProviderFailure extends Error {
  override readonly name = "ProviderFailure";
  readonly failure: Failure;

  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}
