// SPDX-License-Identifier: Apache-2.0
//
// The migration step as a protocol: agree, stage, vote, decide, drain, commit, acknowledge, release; take-over
// with ballots; views. What each part stands for, and what is checked, is told in specs/README.md.
//
// A message that was sent stays: whoever may hear it can hear it at once, late, in any order, more than once, or
// never. So loss, delay, duplication and reordering need no machinery; a deadline may pass before any message.
//
// T(role, before, event, after) names a transition of specs/transitions.txt and says on the first visit that spin
// came there; "ignores role message" stands at a guard that lets nothing old pass. specs/check.py compares both
// with that list. M_... are mutants: the model with one rule broken.

// Sizes. Every configuration of specs/check.py sets what it needs.
#ifndef RANKS
#define RANKS 3
#endif
#ifndef FORWARDS
#define FORWARDS 2
#endif
#ifndef SLACK
#define SLACK 1
#endif
#ifndef PROGRAMS
#define PROGRAMS 1
#endif
#ifndef STEPS
#define STEPS 1
#endif
#ifndef VIEWS
#define VIEWS 0  // view changes that may follow each other; 0: no take-over, as for a fixed set of ranks
#endif
// Budgets of what goes wrong.
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef EARLY
#define EARLY 0  // deadlines that pass although everything could still happen
#endif
#ifndef FAULTS
#define FAULTS 0  // refusals, damaged payloads, want of staging, damage found after the exchange, broken channels
#endif
#ifndef LOSSES
#define LOSSES 0  // promises that bind their rank but do not reach the taker
#endif
#ifdef M_KNOWN_DEAD
#define LEAVES_DENOMINATOR 1
#else
#define LEAVES_DENOMINATOR 0
#endif

#define T(role, before, event, after)                                      \
  c_code {                                                                 \
    {                                                                      \
      static int seen;                                                     \
      if (!seen) printf("reached " #role " " #before " " #event " " #after "\n"); \
      seen = 1;                                                            \
    }                                                                      \
  }

#define ATTEMPTS (PROGRAMS * STEPS)
#define BALLOTS (RANKS + 1)
#define WITH_FAULTS (DEATHS + EARLY + FAULTS > 0)
#define IX(view, attempt) ((view) * ATTEMPTS + (attempt) - 1)
#define BX(view, ballot) ((view) * BALLOTS + (ballot))
#define FX(view, forward) ((view) * (FORWARDS + 1) + (forward))
#define BIT(rank) (1 << (rank))
#define ALL ((1 << RANKS) - 1)

// State of a rank's step. The first four may roll back.
#define IDLE 0
#define PROPOSED 1
#define STAGING 2
#define STAGED 3
#define DRAINING 4
#define COMMITTING 5
#define COMMITTED 6
#define IN_DOUBT 7
#define DEAD 8

#define C_IDLE 0
#define C_AGREEING 1
#define C_VOTING 2
#define C_COMMITTING 3

#define COMMIT 1
#define ABORT 14  // no number of an attempt
#define DAMAGED 15  // an epoch that no table has: bytes of another attempt

// A rank.
byte state[RANKS];
byte table[RANKS];    // epoch of the table that is published here
byte bytes[RANKS];    // epoch whose experts lie in the slots here
byte program[RANKS];  // programs begun
byte step[RANKS];
byte attempt[RANKS];   // in hand; 0: none answered yet
byte newest[RANKS];    // attempt heard of
byte holds[RANKS];     // first forward not to begin undecided
byte limit[RANKS];     // F of the decision
byte finished[RANKS];  // forwards done
bit running[RANKS];    // a forward was begun and is not done
bit votedYes[RANKS];
bit isDisplaced[RANKS];  // staging keeps what the exchange took out of the slots
bit isStale[RANKS];      // bytes of another attempt lie in the staging in use
bit isQuarantined[RANKS];
byte phase[RANKS];       // of the coordinator's part
byte proposed_[RANKS];   // attempts the coordinator has proposed in this view
byte view[RANKS];
byte member[RANKS];   // ranks of the view
byte promise[RANKS];  // highest ballot promised or accepted in this view
byte accepted[RANKS];

// Messages, by (view, attempt).
#define SLOTS ((VIEWS + 1) * ATTEMPTS)
bit proposal[SLOTS];
byte proposalOf[SLOTS];  // program * 16 + step * 4 + epoch: stands for the hash
byte agreement[SLOTS];   // ranks that said yes
bit refusal[SLOTS];
bit start[SLOTS];
byte payload[SLOTS];  // ranks that sent their bundles
byte vote[SLOTS];
bit voteNo[SLOTS];
byte voteHold[SLOTS];   // largest hold of the yes votes
byte coordHold[SLOTS];  // that of the coordinator alone
byte decision[SLOTS];
byte decisionF[SLOTS];
byte ack[SLOTS];
bit release_[SLOTS];

// Messages of take-overs, by (view, ballot).
#if VIEWS > 0
#define BALLOT_SLOTS (VIEWS * BALLOTS)
bit prepare[BALLOT_SLOTS];
byte promised[BALLOT_SLOTS];      // ranks whose promise the taker hears
byte promisedCommit[BALLOT_SLOTS];  // attempt that one of them is committing or has committed
byte promisedAccept[BALLOT_SLOTS];  // highest ballot that one of them has accepted
byte promisedDone[BALLOT_SLOTS];    // smallest number of finished forwards among them
byte outcome[BALLOT_SLOTS];         // proposed: attempt to commit, or ABORT of what is in hand
byte nextMember[BALLOT_SLOTS];      // proposed: ranks of the next view
byte nextDone[BALLOT_SLOTS];        // proposed: forwards the next view counts as done
byte accept[BALLOT_SLOTS];          // ranks that accepted
bit chosen[BALLOT_SLOTS];
byte chosenOutcome[VIEWS];  // seen from above: of view i + 1
byte chosenMember[VIEWS];
#endif

// Forwards, by (view, forward).
byte begun[(VIEWS + 1) * (FORWARDS + 1)];   // ranks whose traffic of the forward is out
byte served[(VIEWS + 1) * (FORWARDS + 1)];  // seen from above: epoch + 1 under which it was begun

byte deaths = DEATHS;
byte early = EARLY;
byte faults = FAULTS;
byte losses = LOSSES;
bit over;

#define HERE IX(view[r], attempt[r])
#define MINE IX(view[r], proposed_[r])
#define LOWEST(mask) (((mask) & 1) -> 0 : (((mask) & 2) -> 1 : 2))
#define COUNT(mask) (((mask) & 1) + (((mask) >> 1) & 1) + (((mask) >> 2) & 1))
#define SERVES (state[r] < IN_DOUBT)
#define COORDINATES (SERVES && LOWEST(member[r]) == r && UNPROMISED)
#define HASH (program[r] * 16 + step[r] * 4 + table[r])
#define LATER(a, b) ((a) > (b) -> (a) : (b))
// A deadline passes early, or because nothing else can happen any more.
#define USE_SUSPICION                 \
  if                                  \
  :: early > 0 -> early = early - 1;  \
  :: else -> skip;                    \
  fi
#ifdef RIVALS  // all begins just before the vote; early deadlines, and no others, start take-overs
#define SUSPICION (early > 0)
#define DEADLINE (WITH_FAULTS && timeout)
#define USE_DEADLINE skip
#else
#define SUSPICION (WITH_FAULTS && (early > 0 || timeout))
#define DEADLINE SUSPICION
#define USE_DEADLINE USE_SUSPICION
#endif
#ifdef M_AFTER_PROMISE
#define UNPROMISED true
#else
#define UNPROMISED (promise[r] == 0)
#endif

#define DEAD_OF(mask)                                                                       \
  ((mask) & ((state[0] == DEAD -> 1 : 0) | (RANKS > 1 && state[1 % RANKS] == DEAD -> 2 : 0) | \
             (RANKS > 2 && state[2 % RANKS] == DEAD -> 4 : 0)))
// A majority of the old view; at a tie the half with its lowest rank; or every rank that is not known dead.
#define IS_MAJORITY(mask, of) \
  (2 * COUNT(mask) > COUNT(of) || (2 * COUNT(mask) == COUNT(of) && ((mask) & BIT(LOWEST(of))) != 0))
#define IS_QUORUM(mask, of)                                      \
  ((mask) != 0 && (IS_MAJORITY(mask, of) || ((of) & ~(mask) & ~DEAD_OF(of)) == 0 || \
                   (LEAVES_DENOMINATOR && IS_MAJORITY((mask) & ~DEAD_OF(of), (of) & ~DEAD_OF(of)))))

// May this rank begin its next forward?
#if defined(M_NO_HOLD)
#define BEFORE_HOLD true
#else
#define BEFORE_HOLD !(state[r] == STAGED && votedYes[r] && finished[r] >= holds[r])
#endif
#if defined(M_ADMIT_AT_F)
#define BEFORE_F true
#else
#define BEFORE_F !(state[r] == DRAINING && finished[r] >= limit[r])
#endif
#define ADMITS                                                                                        \
  (SERVES && !running[r] && finished[r] < FORWARDS && promise[r] == 0 && state[r] != COMMITTING && BEFORE_HOLD && \
   BEFORE_F)

#ifdef M_NO_DRAIN
#define DRAINED true
#else
#define DRAINED (finished[r] >= limit[r] && !running[r])
#endif

inline roll_back(r) {
  assert(bytes[r] == table[r] && !isDisplaced[r]);  // M3: the old bytes are whole
  state[r] = IDLE;
  attempt[r] = 0;
  votedYes[r] = 0;
  holds[r] = 0;
  limit[r] = 0;
  isStale[r] = 0;
}

// What nobody will read is forgotten, so that runs which differ only in it meet again.
inline stop(r, how) {
  state[r] = how;
  table[r] = 0; bytes[r] = 0; program[r] = 0; step[r] = 0; attempt[r] = 0; newest[r] = 0; holds[r] = 0; limit[r] = 0;
  finished[r] = 0; running[r] = 0; votedYes[r] = 0; isDisplaced[r] = 0; isStale[r] = 0; isQuarantined[r] = 0;
  phase[r] = 0; proposed_[r] = 0; promise[r] = 0; accepted[r] = 0
}

inline acknowledge(r) { ack[HERE] = ack[HERE] | BIT(r); }

// Reads the table, and the slots that it names.
inline begin_forward(r) {
  assert(bytes[r] == table[r]);  // M1
  assert(served[FX(view[r], finished[r])] == 0 || served[FX(view[r], finished[r])] == table[r] + 1);  // M2
  served[FX(view[r], finished[r])] = table[r] + 1;
  begun[FX(view[r], finished[r])] = begun[FX(view[r], finished[r])] | BIT(r);
  running[r] = 1;
}

inline finish_forward(r) {
  assert(bytes[r] == table[r]);                               // M1
  assert(served[FX(view[r], finished[r])] == table[r] + 1);  // M2: all traffic of it bears the epoch of the table
  running[r] = 0;
  finished[r] = finished[r] + 1;
}

// The tag of a payload names (view, attempt).
#ifdef M_STALE_PAYLOAD
#define PAYLOAD_CAME                                      \
  ((payload[HERE] & member[r]) == member[r] ||            \
   (attempt[r] > 1 && (payload[IX(view[r], 1)] & member[r]) == member[r]))
#else
#define PAYLOAD_CAME ((payload[HERE] & member[r]) == member[r])
#endif
#ifdef M_NO_VOTE
#define VOTES (r + 1 < RANKS)  // a rank without moves takes no part
#else
#define VOTES true
#endif

inline vote_yes(r) {
  isStale[r] = ((payload[HERE] & member[r]) != member[r]);
  votedYes[r] = 1;
  holds[r] = (finished[r] + running[r] + SLACK < FORWARDS -> finished[r] + running[r] + SLACK : FORWARDS);
  if
  :: decision[HERE] == 0 ->
     voteHold[HERE] = LATER(voteHold[HERE], holds[r]);
     coordHold[HERE] = (LOWEST(member[r]) == r -> holds[r] : coordHold[HERE]);
     vote[HERE] = vote[HERE] | BIT(r)
  :: else -> skip  // too late
  fi;
  state[r] = STAGED
}

inline vote_no(r) {
  voteNo[HERE] = 1;
#ifdef M_VOTE_IGNORED
  vote[HERE] = vote[HERE] | BIT(r);
#endif
  state[r] = STAGED
}

inline decide(r, what) {
  assert(decision[MINE] == 0);  // one decision per (view, epoch, attempt)
  decision[MINE] = what;
#ifdef M_OWN_HOLD
  decisionF[MINE] = coordHold[MINE];
#else
  decisionF[MINE] = (what == COMMIT -> voteHold[MINE] : 0);
#endif
  vote[MINE] = 0; voteHold[MINE] = 0; coordHold[MINE] = 0
}

#if VIEWS > 0
#define WAITS (state[r] != IDLE || running[r] || promise[r] > 0)
// One ballot for each rank and view: no two ranks share one.
#define OWN_BALLOT (r == 0 -> RANKS : r)
#define OWN BX(view[r], OWN_BALLOT)
#ifdef RIVALS
#define GIVES_UP true
#else
#define GIVES_UP (view[r] == VIEWS || promise[r] >= OWN_BALLOT)
#endif
#define MAY_TAKE_OVER (SERVES && view[r] < VIEWS)
#ifdef M_OLD_BALLOT
#define MAY_ACCEPT(b) (accepted[r] != b)
#else
#define MAY_ACCEPT(b) (promise[r] <= b && accepted[r] < b)
#endif

inline add_answer(r, b) {
  promised[BX(view[r], b)] = promised[BX(view[r], b)] | BIT(r);
#ifndef M_ALWAYS_ABORT
  promisedCommit[BX(view[r], b)] =
      (state[r] == COMMITTING || state[r] == COMMITTED -> attempt[r] : promisedCommit[BX(view[r], b)]);
#endif
  promisedAccept[BX(view[r], b)] = LATER(promisedAccept[BX(view[r], b)], accepted[r]);
  // One more than finished, so that 0 says "none yet".
  promisedDone[BX(view[r], b)] =
      (promisedDone[BX(view[r], b)] == 0 || promisedDone[BX(view[r], b)] > finished[r] + 1 -> finished[r] + 1
                                                                       : promisedDone[BX(view[r], b)])
}

inline answer(r, b) {
  if
  :: nextMember[BX(view[r], b)] == 0 -> add_answer(r, b)
  :: else -> skip  // the taker has gone on
  fi
}

// What an older ballot may have chosen already is proposed again; else what the promises say.
inline propose_outcome(r) {
  other = promisedAccept[OWN];
  if
#ifndef M_FORGETS_ACCEPTED
  :: other > 0 ->
     outcome[OWN] = outcome[BX(view[r], other)];
     nextMember[OWN] = nextMember[BX(view[r], other)];
     nextDone[OWN] = nextDone[BX(view[r], other)]
#endif
  :: else ->
     outcome[OWN] = (promisedCommit[OWN] > 0 -> promisedCommit[OWN] : ABORT);
     nextMember[OWN] = promised[OWN];
     nextDone[OWN] = promisedDone[OWN] - 1
  fi;
  promised[OWN] = 0; promisedCommit[OWN] = 0; promisedAccept[OWN] = 0; promisedDone[OWN] = 0;
  other = 0
}

// A view's number names one set of ranks and one end of the view before it.
inline choose(r) {
  assert(chosenMember[view[r]] == 0 ||
         (chosenMember[view[r]] == nextMember[OWN] && chosenOutcome[view[r]] == outcome[OWN]));
  chosenMember[view[r]] = nextMember[OWN];
  chosenOutcome[view[r]] = outcome[OWN];
  accept[OWN] = 0;
  chosen[OWN] = 1
}

// A step that is in hand here ends with its view, unless the outcome is its commit.
inline end_by_abort(r) {
  assert(state[r] != COMMITTING && state[r] != COMMITTED);
  if
  :: state[r] == PROPOSED -> roll_back(r); T(member, proposed, new_view_abort, idle)
  :: state[r] == STAGING -> roll_back(r); T(member, staging, new_view_abort, idle)
  :: state[r] == STAGED -> roll_back(r); T(member, staged, new_view_abort, idle)
  :: state[r] == DRAINING -> roll_back(r); T(member, draining, new_view_abort, idle)
  :: state[r] == IDLE -> skip
  fi
}

// Who was released already acknowledges again: the others may not know.
inline end_by_commit(r) {
  assert(state[r] != STAGING && (state[r] != STAGED || votedYes[r]));
  if
  :: state[r] == STAGED -> holds[r] = 0; state[r] = COMMITTING; T(member, staged, new_view_commit, committing)
  :: state[r] == DRAINING -> limit[r] = 0; state[r] = COMMITTING; T(member, draining, new_view_commit, committing)
  :: state[r] == COMMITTING -> skip; T(member, committing, new_view_commit, committing)
  :: state[r] == COMMITTED -> acknowledge(r); T(member, committed, new_view_commit, committed)
  :: state[r] == PROPOSED -> roll_back(r); ack[IX(view[r], proposed_[r])] = ack[IX(view[r], proposed_[r])] | BIT(r); T(member, proposed, new_view_commit, idle)
  :: state[r] == IDLE -> ack[IX(view[r], proposed_[r])] = ack[IX(view[r], proposed_[r])] | BIT(r); T(member, idle, new_view_commit, idle)
  fi
}

// Enters the view that ballot b has chosen; the forward that runs is abandoned.
inline install(r, b) {
  member[r] = nextMember[BX(view[r], b)];
  running[r] = 0;
  finished[r] = nextDone[BX(view[r], b)];
  proposed_[r] = (outcome[BX(view[r], b)] == ABORT -> 0 : outcome[BX(view[r], b)]);
  newest[r] = proposed_[r];
  phase[r] = (proposed_[r] > 0 -> C_COMMITTING : C_IDLE);
  promise[r] = 0;
  accepted[r] = 0;
  view[r] = view[r] + 1;
  if
  :: proposed_[r] == 0 -> end_by_abort(r)
  :: else -> end_by_commit(r)
  fi
}

inline hear_chosen(r, b) {
  if
  :: (nextMember[BX(view[r], b)] & BIT(r)) == 0 -> stop(r, IN_DOUBT); T(member, any, excluded, in_doubt)
  :: else -> install(r, b); T(member, any, new_view, any)
  fi
}

#define HEARS_PREPARE(b) MAY_TAKE_OVER && promise[r] < b && prepare[BX(view[r], b)]
#define HEARS_OUTCOME(b) MAY_TAKE_OVER && MAY_ACCEPT(b) && nextMember[BX(view[r], b)] != 0
#define HEARS_CHOSEN(b) MAY_TAKE_OVER && chosen[BX(view[r], b)]
#define PROMISE(b)       \
  promise[r] = b;        \
  if                     \
  :: true -> answer(r, b) \
  :: losses > 0 -> losses = losses - 1         \
  fi
#define ACCEPT(b)                       \
  promise[r] = LATER(promise[r], b);    \
  accepted[r] = LATER(accepted[r], b);  \
  accept[BX(view[r], b)] = (chosen[BX(view[r], b)] -> 0 : accept[BX(view[r], b)] | BIT(r))
#endif

proctype Rank(byte r) {
  byte other;
  do
  // Forwards. Each is collective: it ends when the traffic of every rank of the view has come.
  :: atomic { ADMITS -> begin_forward(r) }
  :: atomic { SERVES && running[r] && (begun[FX(view[r], finished[r])] & member[r]) == member[r] -> finish_forward(r) }
#ifdef M_NOT_HELD
  :: atomic { SERVES && !running[r] && finished[r] < FORWARDS && begun[FX(view[r], finished[r])] != 0 ->
              assert(served[FX(view[r], finished[r])] == table[r] + 1) }
#endif

  // The member. A proposal is answered once per attempt, and only while a program is begun.
  :: atomic { state[r] == IDLE && program[r] < PROGRAMS && promise[r] == 0 ->
              program[r] = program[r] + 1; step[r] = 0; state[r] = PROPOSED; T(member, idle, begin, proposed) }
  :: atomic { state[r] == PROPOSED && UNPROMISED && newest[r] < ATTEMPTS && proposal[IX(view[r], newest[r] + 1)] ->
              // ignores member propose
              newest[r] = newest[r] + 1;
              attempt[r] = newest[r];
              if
              :: proposalOf[HERE] == HASH -> agreement[HERE] = agreement[HERE] | BIT(r)
              :: proposalOf[HERE] != HASH -> refusal[HERE] = 1
              :: faults > 0 -> faults = faults - 1; refusal[HERE] = 1
              fi }
  :: atomic { state[r] == PROPOSED && UNPROMISED && attempt[r] > 0 && start[HERE] ->  // ignores member start
              assert((agreement[HERE] & member[r]) == member[r]);  // M6: not a byte before all agree
              payload[HERE] = payload[HERE] | BIT(r);
              if
              :: true -> state[r] = STAGING; T(member, proposed, start, staging)
              :: faults > 0 || isQuarantined[r] ->
                 faults = (faults > 0 -> faults - 1 : 0);
                 vote_no(r); T(member, proposed, no_room, staged)
              fi }
  :: atomic { state[r] == STAGING && UNPROMISED && VOTES && PAYLOAD_CAME ->
              if
              :: true -> vote_yes(r); T(member, staging, vote_yes, staged)
              :: faults > 0 -> faults = faults - 1; vote_no(r); T(member, staging, vote_no, staged)
              fi }
  :: atomic { state[r] == STAGED && UNPROMISED && decision[HERE] == COMMIT ->  // ignores member decision
              assert(votedYes[r]);
              limit[r] = decisionF[HERE];
              holds[r] = 0;
              state[r] = DRAINING; T(member, staged, commit, draining) }
#ifdef M_OLD_ATTEMPT
  :: atomic { state[r] == STAGED && attempt[r] > 1 && decision[HERE - 1] == ABORT -> roll_back(r) }
#endif
  :: atomic { state[r] == PROPOSED && UNPROMISED && attempt[r] > 0 && decision[HERE] == ABORT -> roll_back(r); T(member, proposed, abort, idle) }
  :: atomic { state[r] == STAGING && UNPROMISED && decision[HERE] == ABORT ->
              if
              :: true -> skip
              :: true -> isQuarantined[r] = 1
              fi;
              roll_back(r); T(member, staging, abort, idle) }
  :: atomic { state[r] == STAGED && UNPROMISED && decision[HERE] == ABORT -> roll_back(r); T(member, staged, abort, idle) }
  // A receive of an aborted attempt ends at last, perhaps after its bytes have come.
  :: atomic { SERVES && isQuarantined[r] ->
              isQuarantined[r] = 0;
#ifdef M_NO_QUARANTINE
              isStale[r] = (state[r] >= STAGED && state[r] <= DRAINING)
#endif
            }
  :: atomic { state[r] == DRAINING && UNPROMISED && DRAINED -> 
#if VIEWS > 0
              assert(view[r] >= VIEWS || chosenOutcome[view[r] % VIEWS] != ABORT || (chosenMember[view[r] % VIEWS] & BIT(r)) == 0);
#endif
              limit[r] = 0;
              state[r] = COMMITTING; T(member, draining, drained, committing) }
  :: atomic { state[r] == COMMITTING && bytes[r] == table[r] ->
              assert(!running[r]);  // M1: nobody reads while the slots change
#ifdef M_TABLE_FIRST
              table[r] = table[r] + 1; state[r] = COMMITTED;
            }
  :: atomic { state[r] == COMMITTED && bytes[r] != table[r] -> bytes[r] = table[r]; isDisplaced[r] = 1; acknowledge(r) }
#else
              bytes[r] = (isStale[r] -> DAMAGED : table[r] + 1);
              isDisplaced[r] = 1 }
#endif
  :: atomic { state[r] == COMMITTING && bytes[r] != table[r] ->
              if
              :: true ->
                 table[r] = table[r] + 1;
                 acknowledge(r);
                 state[r] = COMMITTED; T(member, committing, published, committed)
              :: faults > 0 -> faults = faults - 1; stop(r, IN_DOUBT); T(member, committing, unverified, in_doubt)
              fi }
  :: atomic { state[r] == COMMITTED && UNPROMISED && release_[HERE] ->  // ignores member release
              other = 0;
              do
              :: other < RANKS ->
                 // The displaced bundles are the last source of an expert until every live rank has exchanged.
                 assert((member[r] & BIT(other)) == 0 || state[other] >= IN_DOUBT || view[other] != view[r] || table[other] >= table[r]);
                 other = other + 1
              :: else -> other = 0; break
              od;
              isDisplaced[r] = 0; attempt[r] = 0; votedYes[r] = 0; holds[r] = 0; limit[r] = 0; isStale[r] = 0;
              if
              :: step[r] + 1 < STEPS -> step[r] = step[r] + 1; state[r] = PROPOSED; T(member, committed, release, proposed)
              :: else -> state[r] = IDLE; T(member, committed, release, idle)
              fi }

  // The member's deadlines. Before a yes it may end alone; afterwards only a decision or a take-over ends the step.
  :: atomic { state[r] == PROPOSED && DEADLINE -> USE_DEADLINE; roll_back(r); T(member, proposed, deadline, idle) }
  :: atomic { state[r] == STAGING && DEADLINE -> USE_DEADLINE;
              if
              :: true -> skip
              :: true -> isQuarantined[r] = 1
              fi;
              roll_back(r); T(member, staging, deadline, idle) }
#ifdef M_ALONE_AFTER_YES
  :: atomic { state[r] == STAGED && DEADLINE -> USE_DEADLINE; roll_back(r) }
#endif
  :: atomic { state[r] == STAGED && !votedYes[r] && DEADLINE -> USE_DEADLINE; roll_back(r); T(member, staged, deadline, idle) }
#if VIEWS == 0
  :: atomic { state[r] == STAGED && votedYes[r] && DEADLINE -> USE_DEADLINE; stop(r, IN_DOUBT); T(member, staged, deadline, in_doubt) }
  :: atomic { state[r] == DRAINING && DEADLINE -> USE_DEADLINE; stop(r, IN_DOUBT); T(member, draining, deadline, in_doubt) }
  :: atomic { state[r] == COMMITTED && DEADLINE -> USE_DEADLINE; stop(r, IN_DOUBT); T(member, committed, deadline, in_doubt) }
#endif

  // The coordinator's part, on the lowest rank of the view.
  :: atomic { COORDINATES && phase[r] == C_IDLE && state[r] == PROPOSED && attempt[r] == 0 && proposed_[r] < ATTEMPTS ->
              proposed_[r] = proposed_[r] + 1;
              proposal[MINE] = 1;
              proposalOf[MINE] = HASH;
              phase[r] = C_AGREEING; T(coordinator, idle, begin, agreeing) }
#ifdef M_START_EARLY
  :: atomic { COORDINATES && phase[r] == C_AGREEING && agreement[MINE] != 0 ->
#else
  :: atomic { COORDINATES && phase[r] == C_AGREEING && (agreement[MINE] & member[r]) == member[r] ->  // ignores coordinator agreement
#endif
              start[MINE] = 1; phase[r] = C_VOTING; T(coordinator, agreeing, all_agree, voting) }
  :: atomic { COORDINATES && phase[r] == C_AGREEING && refusal[MINE] -> decide(r, ABORT); phase[r] = C_IDLE; T(coordinator, agreeing, refusal, idle) }
  :: atomic { COORDINATES && phase[r] == C_AGREEING && DEADLINE -> USE_DEADLINE; decide(r, ABORT); phase[r] = C_IDLE; T(coordinator, agreeing, deadline, idle) }
  :: atomic { COORDINATES && phase[r] == C_VOTING && (vote[MINE] & member[r]) == member[r] ->  // ignores coordinator vote
              decide(r, COMMIT);
              phase[r] = C_COMMITTING; T(coordinator, voting, all_yes, committing) }
  :: atomic { COORDINATES && phase[r] == C_VOTING && voteNo[MINE] -> decide(r, ABORT); phase[r] = C_IDLE; T(coordinator, voting, refusal, idle) }
#ifdef M_MISSING_VOTE_IS_YES
  :: atomic { COORDINATES && phase[r] == C_VOTING && DEADLINE -> USE_DEADLINE; decide(r, COMMIT); phase[r] = C_COMMITTING }
#else
  :: atomic { COORDINATES && phase[r] == C_VOTING && DEADLINE -> USE_DEADLINE; decide(r, ABORT); phase[r] = C_IDLE; T(coordinator, voting, deadline, idle) }
#endif
#ifdef M_EARLY_RELEASE
  :: atomic { COORDINATES && phase[r] == C_COMMITTING && ack[MINE] != 0 ->
#else
  :: atomic { COORDINATES && phase[r] == C_COMMITTING && (ack[MINE] & member[r]) == member[r] ->  // ignores coordinator acknowledgement
#endif
              release_[MINE] = 1; phase[r] = C_IDLE; T(coordinator, committing, all_acknowledge, idle) }
#if VIEWS == 0
  :: atomic { COORDINATES && phase[r] == C_COMMITTING && DEADLINE -> USE_DEADLINE; stop(r, IN_DOUBT); T(coordinator, committing, deadline, in_doubt) }
#endif

#if VIEWS > 0
  // Take-over in view v: its ranks agree on how v ends (the step in hand, the ranks of view v + 1) in two phases.
  // A promise says what its rank has done and binds it to nothing older.
  :: atomic { MAY_TAKE_OVER && WAITS && promise[r] < OWN_BALLOT && SUSPICION ->
              USE_SUSPICION;
              promise[r] = OWN_BALLOT; prepare[OWN] = 1; answer(r, OWN_BALLOT); T(taker, idle, deadline, preparing) }
  :: atomic { HEARS_PREPARE(1) -> PROMISE(1); T(member, any, promise, any) }
#if RANKS > 1
  :: atomic { HEARS_PREPARE(2) -> PROMISE(2); T(member, any, promise, any) }
#endif
#if RANKS > 2
  :: atomic { HEARS_PREPARE(3) -> PROMISE(3); T(member, any, promise, any) }
#endif
  :: atomic { MAY_TAKE_OVER && promise[r] == OWN_BALLOT && nextMember[OWN] == 0 && IS_QUORUM(promised[OWN], member[r]) ->
              propose_outcome(r); T(taker, preparing, quorum_promises, proposing)
#ifdef M_ONE_PHASE
              ; choose(r)
#endif
            }
  :: atomic { HEARS_OUTCOME(1) -> ACCEPT(1); T(member, any, accept, any) }
#if RANKS > 1
  :: atomic { HEARS_OUTCOME(2) -> ACCEPT(2); T(member, any, accept, any) }
#endif
#if RANKS > 2
  :: atomic { HEARS_OUTCOME(3) -> ACCEPT(3); T(member, any, accept, any) }
#endif
  :: atomic { MAY_TAKE_OVER && !chosen[OWN] && nextMember[OWN] != 0 && IS_QUORUM(accept[OWN], member[r]) ->
              choose(r); T(taker, proposing, quorum_accepts, chosen) }
  :: atomic { HEARS_CHOSEN(1) -> hear_chosen(r, 1) }
#if RANKS > 1
  :: atomic { HEARS_CHOSEN(2) -> hear_chosen(r, 2) }
#endif
#if RANKS > 2
  :: atomic { HEARS_CHOSEN(3) -> hear_chosen(r, 3) }
#endif
  // Nothing comes and nothing can be begun: a minority stops.
  :: atomic { SERVES && WAITS && WITH_FAULTS && timeout && GIVES_UP ->
              stop(r, IN_DOUBT); T(member, any, no_quorum, in_doubt) }
#endif

  // Death, at any point; and a channel that breaks, after which the rank stops.
  :: atomic { deaths > 0 && SERVES -> deaths = deaths - 1; stop(r, DEAD) }
  :: atomic { faults > 0 && SERVES -> faults = faults - 1; stop(r, IN_DOUBT); T(member, any, failed, in_doubt) }
  :: over -> break
  od
}

#define ENDED(r)                                                                                       \
  (state[r] >= IN_DOUBT || (state[r] == IDLE && program[r] == PROGRAMS && promise[r] == 0 &&              \
                            (finished[r] == FORWARDS || (VIEWS == 0 && WITH_FAULTS && running[r]))))
#define ALL_ENDED (ENDED(0) && (RANKS < 2 || ENDED(1 % RANKS)) && (RANKS < 3 || ENDED(2 % RANKS)))
#define AGREES(a, b) \
  (state[a] >= IN_DOUBT || state[b] >= IN_DOUBT || view[a] != view[b] || (table[a] == table[b] && member[a] == member[b]))
#define COMMITTED_ALL(r) (table[r] == ATTEMPTS && bytes[r] == ATTEMPTS && finished[r] == FORWARDS && !isDisplaced[r])
#define DONE (COMMITTED_ALL(0) && COMMITTED_ALL(1 % RANKS) && COMMITTED_ALL(2 % RANKS))

// When nothing can happen any more, everything must have ended well. Elsewhere the lack of anything to do is a
// deadlock, which spin reports as an invalid end state.
proctype Judge() {
  atomic {
    timeout && ALL_ENDED ->
    assert(AGREES(0, 1 % RANKS) && AGREES(0, 2 % RANKS) && AGREES(1 % RANKS, 2 % RANKS));
    assert(WITH_FAULTS || DONE);
    over = 1
  }
}

init {
  byte i;
  atomic {
    do
    :: i < RANKS ->
       member[i] = ALL;
#ifdef RIVALS
       state[i] = STAGING; program[i] = 1; attempt[i] = 1; newest[i] = 1;
#endif
       i = i + 1
    :: else -> break
    od;
#ifdef RIVALS
    proposed_[0] = 1; phase[0] = C_VOTING; proposal[0] = 1; proposalOf[0] = 16; agreement[0] = ALL; start[0] = 1; payload[0] = ALL;
#endif
    i = 0;
    do
    :: i < RANKS -> run Rank(i); i = i + 1
    :: else -> i = 0; break
    od;
    run Judge()
  }
}

// Without faults every program that is begun ends committed on every rank.
#ifdef PROGRESS
ltl progress { <> DONE }
#endif
