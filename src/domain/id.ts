import { z } from "zod";

/** An id as people give it: kept as it is outside, encoded where a store needs it. */
export const Id = z
  .string()
  .regex(/^[A-Za-z0-9._\-/:@]{1,200}$/, "must be 1 to 200 characters of letters, digits and . _ - / : @");

/** An agent's or lane's name: it names a queue, so it has no `:`, and a key of objects, so it is not `__proto__`. */
export const Name = z
  .string()
  .regex(/^[A-Za-z0-9._\-/@]{1,100}$/, "must be 1 to 100 characters of letters, digits and . _ - / @")
  .refine((name) => name !== "__proto__", "may not be __proto__");
