/** How claims on turns are held, in ms. */
export interface LeaseSettings {
  /** How long an attempt's claim on its turn holds without a renewal. */
  readonly leaseMs: number;
  /** How often a worker renews its leases. */
  readonly renewEveryMs: number;
  /** A longer gap between two renewals of a lane means that Redis or all workers were away. */
  readonly maxGapMs: number;
  /** How long all leases hold after such a gap. */
  readonly graceMs: number;
}

/** What holds unless a test says otherwise. All workers of a lane must agree on it. */
export const LEASE_SETTINGS: LeaseSettings = { leaseMs: 8000, renewEveryMs: 1000, maxGapMs: 3000, graceMs: 10_000 };
