/** How long an attempt's claim on its turn holds without a renewal, in ms. */
export const LEASE_MS = 8000;
/** How often a worker renews its leases, in ms. */
export const RENEW_EVERY_MS = 1000;
/** A longer gap between two renewals of a lane means that Redis or all workers were away, in ms. */
export const MAX_RENEWAL_GAP_MS = 3000;
/** How long all leases hold after such a gap, in ms. */
export const OUTAGE_GRACE_MS = 10_000;
