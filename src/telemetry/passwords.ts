/** The text with the passwords of all URLs in it masked. */
export function withoutPasswords(text: string): string {
  return text.replaceAll(/\b([a-z][a-z0-9+.-]*:\/\/[^\s:/@"']*):[^\s@"']+@/gi, "$1:***@");
}
