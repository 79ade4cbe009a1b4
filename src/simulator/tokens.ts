/** Characters that stand for one simulated token. */
const CHARS_PER_TOKEN = 4;
/** What every message adds, as providers do for its role. */
const MESSAGE_OVERHEAD = 3;

/** The simulator's count of a text's tokens: one for every four characters begun. */
export function textTokens(text: string): number {
  return Math.ceil(text.length / CHARS_PER_TOKEN);
}

/** The tokens of a message with this text. */
export function messageTokens(text: string): number {
  return textTokens(text) + MESSAGE_OVERHEAD;
}

/** A text cut into the pieces in which it is streamed, a token each. */
export function tokenPieces(text: string): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length; at += CHARS_PER_TOKEN) pieces.push(text.slice(at, at + CHARS_PER_TOKEN));
  return pieces;
}
