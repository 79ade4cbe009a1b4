/** The public names of turnq. All else is private: `npm run check` finds a type that they mention and that is not here. */
export { openTurnq, type AgentLike, type NamedClass, type NamedEntry, type OpenOptions } from "./app.ts";
export { defineConfig } from "./define-config.ts";
export type { AgentEntry, AgentEntryInput, ConfigFile, TurnqConfig } from "./config.ts";
export type { RedisTarget } from "./redis/connection.ts";
export type { Log } from "./telemetry/log.ts";

export type { SubmitManyOptions, Turnq, Turns, WorkerOptions } from "./turnq.ts";
export type { WorkerHandle } from "./worker-handle.ts";
export type { Batch, BatchProgress, ResultsOptions, RetryWhich } from "./batch-handle.ts";
export type { BatchPlace, FollowOptions } from "./queue/batch-view.ts";
export type { Failures } from "./batch/failure-tally.ts";
export type { Spend } from "./batch/spend.ts";
export type { CancelOptions, CancelProgress, Cancelled } from "./queue/cancel.ts";
export type { KnownAgent } from "./queue/directory.ts";
export type { BatchInfo, LaneInfo } from "./queue/lane-view.ts";
export type {
  BatchCounts,
  CancelView,
  ClosedAttempt,
  ClosedGate,
  LaneCounts,
  LaneLimits,
  OpenedAttempt,
  TurnRow,
} from "./ledger/ledger.ts";
export type { Retried } from "./queue/retry.ts";
export type { TurnFilter } from "./queue/turn-list.ts";
export type { WorkerInfo } from "./queue/worker-registry.ts";
export { WaitTimeoutError, type EventsOptions, type ResultOptions, type TurnHandle } from "./queue/turn-handle.ts";
export type { Unserved } from "./queue/served-agents.ts";
export type { MissingAgent } from "./queue/missing-agents.ts";
export type { Retention } from "./queue/retention.ts";
export type { AttemptName, EndedHere } from "./queue/worker-context.ts";
export type { OthersWanted, OtherTurns } from "./queue/other-turns.ts";
export type { Readiness } from "./queue/readiness.ts";
export type { CloseOptions, ClosePhase, CloseReport } from "./queue/worker.ts";

export {
  Agent,
  type AgentInit,
  type AgentState,
  type CommunicateOptions,
  type CostLogTags,
  type StartOptions,
} from "./agent/agent.ts";
export {
  defineAgent,
  type AgentCall,
  type AgentFunction,
  type AgentReply,
  type DefinedAgent,
  type DefineOptions,
} from "./agent/define-agent.ts";
export type { AgentAbilities, AgentSpec, AttemptInit } from "./agent/agent-spec.ts";
export type { EventStored, TurnAnswer } from "./agent/agent-init.ts";
export type { AgentClass, SpecOptions } from "./agent/class-spec.ts";
export type { Clock } from "./agent/deadline.ts";
export type { CallUsage, Emitter } from "./agent/emitter.ts";
export type { EventCollector, RecordEnd } from "./agent/event-collector.ts";
export type { AgentTurn, CallThread, Finalize, TurnEnd } from "./agent/ongoing-turn.ts";
export type { StepDetails } from "./agent/open-step.ts";
export { AgentCrashError, TurnTimeoutError } from "./agent/turn-errors.ts";

export { ERROR_CODES, TurnqError, isTurnqError, type ErrorCode, type TurnqErrorOptions } from "./domain/error.ts";
export { FAILURE_POLICY, Failure, FailureCode, type FailureRule } from "./domain/failure.ts";
export type { Json, JsonObject } from "./domain/json.ts";
export type { Limits, LimitsInput, RetryInput } from "./domain/limits.ts";
export { TurnRequest, type Input, type StoredRequest } from "./domain/turn-request.ts";
export { Message, Part } from "./domain/message.ts";
export { Step, ToolCall, failedStep, succeededStep, type StepFacts, type StepFailure } from "./domain/step.ts";
export { AttemptStatus, PlanStep, TurnRecord } from "./domain/turn-record.ts";
export { agentResult, type AgentResult, type AgentResultData, type TurnCompletedFacts } from "./domain/agent-result.ts";
export { Result, failed, succeeded } from "./domain/result.ts";
export { AttemptSummary, Outcome, TurnResult, TurnStatus, outcomeOf } from "./domain/turn-result.ts";
export { WorkflowResult, abortError, joinOutputs, workflowResult, type JoinOptions } from "./domain/workflow-result.ts";
export { TurnEvent, type EventBody } from "./domain/turn-event.ts";
export { TurnState } from "./domain/lifecycle.ts";
export { StopReason } from "./domain/stop-reason.ts";
export { Usage, addUsage, sumUsage, type UsageField } from "./domain/usage.ts";
export { Check, Score, type CheckType } from "./domain/check.ts";
export { ResultLine } from "./batch/result-line.ts";
