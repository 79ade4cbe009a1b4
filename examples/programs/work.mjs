/**
 * The kinds of task and how each is done. `run(program, args, stdin?)` starts one real child process and answers with
 * what it wrote to stdout. A careless worker makes three honest mistakes: it sorts numbers as text, cuts a mean to
 * a whole number and counts bytes where characters were asked for.
 */

/** A task that nobody here can do. */
export class UnknownTaskError extends Error {}

const HASHES = { sha256: "sha256sum", md5: "md5sum" };

const HASH = `
const [algorithm, text] = JSON.parse(require("fs").readFileSync(0, "utf8"));
process.stdout.write(require("crypto").createHash(algorithm).update(text).digest("hex"));`;

const QUERY = `
const [path, document] = JSON.parse(require("fs").readFileSync(0, "utf8"));
let value = JSON.parse(document);
for (const [, key, index] of path.matchAll(/\\.(\\w+)|\\[(\\d+)\\]/g)) {
  value = key === "length" && Array.isArray(value) ? value.length : value[key ?? index];
}
process.stdout.write(typeof value === "string" ? value : JSON.stringify(value));`;

const CHARACTERS = `process.stdout.write(String([...require("fs").readFileSync(0, "utf8")].length));`;

const DAYS = `
const [from, to] = require("fs").readFileSync(0, "utf8").split(" ").map((day) => Date.parse(day + "T00:00:00Z"));
process.stdout.write(String((to - from) / 86400000));`;

const WEEKDAY = `
const day = new Date(require("fs").readFileSync(0, "utf8") + "T00:00:00Z");
process.stdout.write(["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"][day.getUTCDay()]);`;

const ROMAN = `BEGIN {
  split("1000 900 500 400 100 90 50 40 10 9 5 4 1", value, " ");
  split("M CM D CD C XC L XL X IX V IV I", sign, " ");
  for (i = 1; i <= 13; i++) while (n >= value[i]) { printf "%s", sign[i]; n -= value[i] }
}`;

const BINARY = `BEGIN { do { digits = n % 2 digits; n = int(n / 2) } while (n > 0); print digits }`;

const FROM_BINARY = `{ for (i = 1; i <= length($0); i++) n = n * 2 + substr($0, i, 1); print n }`;

const FACTORS = `BEGIN { for (p = 2; n > 1; p++) while (n % p == 0) { print p; n /= p } }`;

const PRIMES = `BEGIN { for (n = 2; n <= top; n++) { for (p = 2; p * p <= n && n % p; p++); if (p * p > n) print n } }`;

const LONGEST = `{ for (i = 1; i <= NF; i++) if (length($i) > length(best)) best = $i } END { print best }`;

const BACKWARDS = `{ for (i = length($0); i > 0; i--) printf "%s", substr($0, i, 1) }`;

const toLines = (list) => `${list.split(/[\s,]+/).join("\n")}\n`;
const toList = (lines) => lines.trim().split("\n").join(", ");

async function hash(run, algorithm, text) {
  try {
    return (await run(HASHES[algorithm], [], text)).split(" ")[0];
  } catch (error) {
    // Not every system has the GNU programs.
    if (error.code !== "ENOENT") throw error;
    return run("node", ["-e", HASH], JSON.stringify([algorithm, text]));
  }
}

async function mostFrequent(run, text) {
  const words = await run("tr", ["-s", " ", "\n"], `${text}\n`);
  const sorted = await run("sort", [], words);
  const counted = await run("uniq", ["-c"], sorted);
  const ranked = await run("sort", ["-rn"], counted);
  return ranked.trim().split("\n")[0].trim().split(/\s+/)[1];
}

async function shift(run, by, text) {
  const letters = "abcdefghijklmnopqrstuvwxyz";
  const turned = letters.slice(by % 26) + letters.slice(0, by % 26);
  return run("tr", [letters, turned], text);
}

const FORMS = {
  hex: (run, number) => run("printf", ["%x", number]),
  octal: (run, number) => run("printf", ["%o", number]),
  decimal: (run, number) => run("printf", ["%d", number]),
  binary: (run, number) => run("awk", ["-v", `n=${number}`, BINARY]),
  roman: (run, number) => run("awk", ["-v", `n=${number}`, ROMAN]),
};

// Each: the form of the task's text, and how it is done: (the form's groups, run, careless) => answer.
const KINDS = [
  [/^count words: (.+)$/s, ([text], run) => run("wc", ["-w"], text)],
  [/^count lines:\n(.+)$/s, ([text], run) => run("wc", ["-l"], `${text}\n`)],
  [
    /^count characters: (.+)$/s,
    ([text], run, careless) => (careless ? run("wc", ["-c"], text) : run("node", ["-e", CHARACTERS], text)),
  ],
  [
    /^count the letter ([a-z]) in: (.+)$/s,
    async ([letter, text], run) => run("wc", ["-c"], await run("tr", ["-cd", letter], text)),
  ],
  [
    /^sort numbers: (.+)$/,
    async ([list], run, careless) => toList(await run("sort", careless ? [] : ["-n"], toLines(list))),
  ],
  [/^sort words: (.+)$/, async ([list], run) => toList(await run("sort", [], toLines(list)))],
  [/^unique words: (.+)$/, async ([list], run) => toList(await run("awk", ["!seen[$0]++"], toLines(list)))],
  [/^most frequent word: (.+)$/, ([text], run) => mostFrequent(run, text)],
  [/^longest word: (.+)$/, ([text], run) => run("awk", [LONGEST], text)],
  [/^word (\d+) of: (.+)$/, ([number, text], run) => run("cut", ["-d", " ", "-f", number], text)],
  [/^reverse: (.+)$/, ([text], run) => run("awk", [BACKWARDS], text)],
  [/^uppercase: (.+)$/, ([text], run) => run("tr", ["a-z", "A-Z"], text)],
  [/^shift by (\d+): (.+)$/, ([by, text], run) => shift(run, Number(by), text)],
  [/^(sha256|md5): (.+)$/s, ([algorithm, text], run) => hash(run, algorithm, text)],
  [/^hex bytes: (.+)$/s, async ([text], run) => (await run("od", ["-An", "-tx1"], text)).trim().split(/\s+/).join(" ")],
  [/^base64 encode: (.+)$/s, ([text], run) => run("base64", [], text)],
  [/^base64 decode: (.+)$/, ([text], run) => run("base64", ["--decode"], text)],
  [/^convert ([01]+) from binary to decimal$/, ([digits], run) => run("awk", [FROM_BINARY], digits)],
  [
    /^convert (0x[0-9a-f]+|\d+) to (hex|octal|decimal|binary|roman)$/,
    ([number, form], run) => FORMS[form](run, number),
  ],
  [/^calculate: ([-+*/%(). \d]+)$/, ([formula], run) => run("awk", [`BEGIN { print ${formula} }`])],
  [
    /^mean of: (.+)$/,
    ([list], run, careless) =>
      run("awk", [`{ sum += $1 } END { printf "${careless ? "%d" : "%.2f"}", sum / NR }`], toLines(list)),
  ],
  [
    /^greatest common divisor of (\d+) and (\d+)$/,
    ([a, b], run) =>
      run("awk", ["-v", `a=${a}`, "-v", `b=${b}`, "BEGIN { while (b) { t = a % b; a = b; b = t }; print a }"]),
  ],
  [/^prime factors of (\d+)$/, async ([n], run) => toList(await run("awk", ["-v", `n=${n}`, FACTORS]))],
  [/^primes up to (\d+)$/, async ([top], run) => toList(await run("awk", ["-v", `top=${top}`, PRIMES]))],
  [
    /^sum column (\d+) of csv:\n(.+)$/s,
    ([column, csv], run) => run("awk", ["-F", ",", `{ sum += $${column} } END { print sum }`], `${csv}\n`),
  ],
  [/^query (\S+) from (.+)$/s, ([path, document], run) => run("node", ["-e", QUERY], JSON.stringify([path, document]))],
  [/^days between (\S+) and (\S+)$/, ([from, to], run) => run("node", ["-e", DAYS], `${from} ${to}`)],
  [/^weekday of (\S+)$/, ([day], run) => run("node", ["-e", WEEKDAY], day)],
];

/** Does the task and answers with one text. Throws UnknownTaskError, and what `run` throws. */
export async function work(task, run, careless = false) {
  for (const [form, solve] of KINDS) {
    const match = form.exec(task);
    if (match) return (await solve(match.slice(1), run, careless)).trim();
  }
  throw new UnknownTaskError(`no kind of task begins like this: ${task.slice(0, 60)}`);
}
