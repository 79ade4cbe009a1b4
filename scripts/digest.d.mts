export declare function sourceDigest(root: string): string;
