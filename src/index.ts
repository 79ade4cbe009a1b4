/** The public names of turnq. All else is private, and the command line uses only these. */
export { openTurnq, type AgentLike, type NamedClass, type NamedEntry, type OpenOptions } from "./app.ts";
export type { SubmitManyOptions, Turnq, Turns, WorkerOptions } from "./turnq.ts";
export type { WorkerHandle } from "./worker-handle.ts";
export type { Batch, BatchProgress, ResultsOptions, RetryWhich } from "./batch-handle.ts";
export type { CancelOptions, CancelProgress, Cancelled } from "./queue/cancel.ts";
export type { BatchInfo, LaneInfo } from "./queue/lane-view.ts";
export type { TurnRow } from "./ledger/ledger.ts";
export type { TurnFilter } from "./queue/turn-list.ts";
export type { WorkerInfo } from "./queue/worker-registry.ts";
export { WaitTimeoutError, type EventsOptions, type TurnHandle } from "./queue/turn-handle.ts";
export type { Retention } from "./queue/retention.ts";
export type { Readiness } from "./queue/readiness.ts";
export type { CloseReport } from "./queue/worker.ts";

export { Agent, type AgentInit, type AgentState, type CommunicateOptions, type StartOptions } from "./agent/agent.ts";
export {
  defineAgent,
  type AgentCall,
  type AgentFunction,
  type AgentReply,
  type DefinedAgent,
} from "./agent/define-agent.ts";
export type { TurnAnswer } from "./agent/agent-init.ts";
export type { AgentTurn } from "./agent/ongoing-turn.ts";
export type { Emitter } from "./agent/emitter.ts";
export { AgentCrashError, TurnTimeoutError } from "./agent/turn-errors.ts";

export { ERROR_CODES, TurnqError, isTurnqError, type ErrorCode } from "./domain/error.ts";
export { FAILURE_POLICY, Failure, FailureCode } from "./domain/failure.ts";
export { TurnRequest } from "./domain/turn-request.ts";
export { Message, Part } from "./domain/message.ts";
export { Step, ToolCall, failedStep, succeededStep } from "./domain/step.ts";
export { AttemptStatus, PlanStep, TurnRecord } from "./domain/turn-record.ts";
export { agentResult, type AgentResult } from "./domain/agent-result.ts";
export { Result, failed, succeeded } from "./domain/result.ts";
export { AttemptSummary, Outcome, TurnResult, TurnStatus, outcomeOf } from "./domain/turn-result.ts";
export { WorkflowResult, abortError, joinOutputs, workflowResult } from "./domain/workflow-result.ts";
export { TurnEvent } from "./domain/turn-event.ts";
export { TurnState } from "./domain/lifecycle.ts";
export { StopReason } from "./domain/stop-reason.ts";
export { Usage, addUsage, sumUsage } from "./domain/usage.ts";
export { Check, Score } from "./domain/check.ts";
export { ResultLine } from "./batch/result-line.ts";
