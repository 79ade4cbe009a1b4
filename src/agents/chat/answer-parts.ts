import type { StreamTextResult, TextStreamPart, ToolSet } from "ai";

/** What comes of a turn's calls, piece by piece. */
export type AnswerPart = TextStreamPart<ToolSet>;

type Result = Pick<StreamTextResult<ToolSet, never>, "fullStream">;
/** Parts as the SDK has them before it shows them. */
type Inner = ReadableStream<{ readonly part: AnswerPart }>;

/**
 * The parts of a result, each once. `fullStream` forks the SDK's own stream and keeps all of the
 * fork that nobody reads until the turn ends: it holds a whole answer, and costs a quarter of the
 * time. So the stream before the fork is read, where this version of the SDK has it.
 */
export function answerParts(result: Result): AsyncIterator<AnswerPart> {
  const inner: unknown = Reflect.get(result, "baseStream");
  return inner instanceof ReadableStream ? read(inner as Inner) : result.fullStream[Symbol.asyncIterator]();
}

function read(stream: Inner): AsyncIterator<AnswerPart> {
  const reader = stream.getReader();
  return {
    next: async () => {
      const { done, value } = await reader.read();
      return done ? { done, value: undefined } : { done, value: value.part };
    },
    return: async () => {
      await reader.cancel();
      return { done: true, value: undefined };
    },
  };
}
