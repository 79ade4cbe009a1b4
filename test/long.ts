/**
 * True in `npm run check`, which tries for minutes what `npm test` tries in a short form: more histories, seeds and deaths.
 * Both try every kind of effect, fault and law.
 */
export const LONG = process.env["TURNQ_TEST_LONG"] === "1";
