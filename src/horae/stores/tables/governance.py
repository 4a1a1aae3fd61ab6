"""Governed objects, what they rest on, and what was decided about them. Every row has an owner.

Shares are parts of a million, spans and instants microseconds. What a person can be recognised by, content, subjects,
notes, actions and questions, stands in columns of its own, so that it can be erased.
"""

from __future__ import annotations

import json

from sqlalchemy import CheckConstraint, Index, PrimaryKeyConstraint

from horae.core.governance.decisions import Cite, Decision
from horae.core.governance.evidence import Evidence
from horae.core.governance.gates import Boundary
from horae.core.governance.objects import GovernedObject, Link, ObjectVersion, Opinion, Removals
from horae.core.governance.personas import Persona
from horae.core.governance.policies import StoredPolicy
from horae.core.governance.reviews import Review
from horae.core.governance.rollbacks import Rollback
from horae.stores.codecs import (
    COUNT,
    FLAG,
    INSTANT,
    LONG_TEXT,
    MAPPING,
    NAME,
    NUMBER,
    ROW_NUMBER,
    SPAN,
    WORDS,
    Codec,
    Json,
    text,
)
from horae.stores.declaration import NEVER_AGAIN, Declaration, Field, Mark

FIXED = Mark.FIXED
OBJECT_ID = text(150)  # also that of a decision, a review, a rollback
AGENT = text(100)
_OPINIONS = Codec(
    Json(),
    lambda stored: tuple(
        Opinion(verifier, verdict, tuple(evidence)) for verifier, verdict, evidence in json.loads(stored)
    ),
    lambda found: json.dumps([[each.verifier, each.verdict, list(each.evidence)] for each in found]),
    null=(),
)
_BOUNDARIES = Codec(
    Json(),
    lambda stored: tuple(Boundary(*each) for each in json.loads(stored)),
    lambda found: json.dumps([[each.text, each.effect] for each in found], ensure_ascii=False),
    null=(),
)

OBJECTS = Declaration(
    "horae_objects",
    GovernedObject,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("owner", NAME, FIXED, required=True),
    Field("kind", text(12), FIXED, required=True),
    Field("id", OBJECT_ID, FIXED, column="object_id", required=True),
    Field("state", text(40), required=True),
    Field("created_at", INSTANT, FIXED, required=True),
    Field("state_since", INSTANT, required=True),
    Field("agent", AGENT, FIXED, required=True),
    Field("subject", text(200), required=True),
    Field("category", text(12), FIXED, required=True),
    Field("version", COUNT, required=True),
    Field("risk", text(8), required=True),
    Field("impact", text(8), required=True),
    Field("confidence", COUNT),
    Field("tamper", COUNT),
    Field("contested", FLAG, required=True),
    Field("protected", FLAG, required=True),
    Field("rejected", FLAG, required=True),
    Field("needs_person", FLAG, required=True),
    Field("stalled", FLAG, required=True),
    Field("unknown_type", text(20)),
    Field("mode", text(12)),
    Field("superseded_by", OBJECT_ID),
    Field("stability", SPAN, required=True),
    Field("verified_at", INSTANT),
    Field("checked_at", INSTANT),
    Field("review_due_at", INSTANT),
    Field("used_at", INSTANT),
    Field("reinforced_at", INSTANT),
    Field("stale_since", INSTANT),
    Field("uncertain_until", INSTANT),
    Field("expires_at", INSTANT),
    Field("kept_until", INSTANT),
    Field("asked_action", text(20)),
    Field("asked_at", INSTANT),
    Field("verify_used", COUNT, required=True),
    Field("reinforcements", COUNT, required=True),
    Field("new_evidence", COUNT, required=True),
    Field("reinstate_signal", FLAG, required=True),
    Field("inconclusives", COUNT, required=True),
    Field("reinstate_checks", COUNT, required=True),
    Field("next_action", text(20)),
    Field("next_action_at", INSTANT),
    Field("job", NUMBER, column="job_id"),
    Field("queue", text(100), required=True),
    Field("admitted_version", COUNT),
    Field("put_backs", COUNT, required=True),
    Field("reviews", COUNT, required=True),
    Field("reviewed_at", INSTANT),
    Field("proposer", NAME, FIXED, required=True),
    Field("source_type", text(40), FIXED, required=True),
    Field("source", text(500), required=True),
    Field("subject_key", text(64), required=True),
    Field("fingerprint", text(64)),
    Field("opinions", _OPINIONS),
    Field("decision", OBJECT_ID),
    Field("erased_at", INSTANT),
    Index("horae_objects_name", "owner", "kind", "object_id", unique=True),
    Index("horae_objects_state", "owner", "kind", "state", "id"),
    Index("horae_objects_subject", "owner", "subject_key", "id"),
    Index("horae_objects_agent", "owner", "agent", "id"),
    Index("horae_objects_due", "next_action_at", "id"),
    Index("horae_objects_print", "owner", "fingerprint"),
    Index("horae_objects_put_back", "owner", "put_backs"),
    Index("horae_objects_job", "job_id"),
    info=NEVER_AGAIN,
)
objects = OBJECTS.table

# An object after each change of its state. Content stands only here.
VERSIONS = Declaration(
    "horae_object_versions",
    ObjectVersion,
    Field("owner", NAME, FIXED, required=True),
    Field("object", ROW_NUMBER, FIXED, column="object_number", required=True),
    Field("version", COUNT, FIXED, required=True),
    Field("at", INSTANT, FIXED, required=True),
    Field("verb", text(40), FIXED, required=True),
    Field("state", text(40), FIXED, required=True),
    Field("fields", MAPPING, column="snapshot", required=True),
    Field("content", LONG_TEXT),
    Field("content_key", text(64)),
    Field("digest", text(64)),
    PrimaryKeyConstraint("object_number", "version"),
)
versions = VERSIONS.table

LINKS = Declaration(
    "horae_object_links",
    Link,
    Field("owner", NAME, required=True),
    Field("object", ROW_NUMBER, column="object_number", required=True),
    Field("rests_on", ROW_NUMBER, required=True),
    Field("created_at", INSTANT, required=True),
    PrimaryKeyConstraint("object_number", "rests_on"),
    Index("horae_object_links_lower", "rests_on", "object_number"),
)
links = LINKS.table

# The cap on removals is counted here: one row for each owner and day.
REMOVALS = Declaration(
    "horae_removals",
    Removals,
    Field("owner", NAME, required=True),
    Field("day", INSTANT, column="day_at", required=True),
    Field("removed", COUNT, required=True),
    Field("live", COUNT, column="live_objects"),
    PrimaryKeyConstraint("owner", "day_at"),
)
removals = REMOVALS.table

EVIDENCE = Declaration(
    "horae_evidence",
    Evidence,
    Field("id", text(40), FIXED, column="evidence_id", primary_key=True),
    Field("owner", NAME, FIXED, required=True),
    Field("object", ROW_NUMBER, FIXED, column="object_number", required=True),
    Field("reference", text(500), required=True),
    Field("kind", text(16), FIXED, required=True),
    Field("at", INSTANT, FIXED, required=True),
    Field("actor", NAME, FIXED, required=True),
    Field("source", text(500), required=True),
    Field("derived", FLAG, FIXED, required=True),
    Field("survived", FLAG, FIXED, required=True),
    Field("note", LONG_TEXT),
    Field("known_as", text(64), FIXED | Mark.INTERNAL, column="reference_key", source="reference_key", required=True),
    Index("horae_evidence_reference", "object_number", "reference_key", unique=True),
)
evidence = EVIDENCE.table

# Every version of a policy stays, because entries name it; the highest one holds.
POLICIES = Declaration(
    "horae_policies",
    StoredPolicy,
    Field("owner", NAME, required=True),
    Field("agent", AGENT, required=True),
    Field("kind", text(12), required=True),
    Field("version", COUNT, required=True),
    Field("settings", MAPPING, required=True),
    Field("set_at", INSTANT, required=True),
    Field("set_by", NAME, required=True),
    PrimaryKeyConstraint("owner", "agent", "kind", "version"),
)
policies = POLICIES.table

PERSONAS = Declaration(
    "horae_personas",
    Persona,
    Field("owner", NAME, FIXED, required=True),
    Field("agent", AGENT, FIXED, required=True),
    Field("changed_at", INSTANT, required=True),
    Field("changed_by", NAME, required=True),
    Field("boundaries", _BOUNDARIES, required=True),
    Field("values", WORDS, column="persona_values", required=True),
    Field("archived", FLAG, required=True),
    Field("version", COUNT, required=True),
    PrimaryKeyConstraint("owner", "agent"),
)
personas = PERSONAS.table

DECISIONS = Declaration(
    "horae_decisions",
    Decision,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("owner", NAME, FIXED, required=True),
    Field("id", OBJECT_ID, FIXED, column="decision_id", required=True),
    Field("action", LONG_TEXT, column="action_text", required=True),
    Field("risk", text(8), FIXED, required=True),
    Field("outcome", text(12), FIXED, required=True),
    Field("mode", text(12), FIXED, required=True),
    Field("reason", LONG_TEXT, required=True),
    Field("standing", text(12), FIXED, required=True),
    Field("decided_at", INSTANT, FIXED, required=True),
    Field("actor", NAME, FIXED, required=True),
    Field("agent", AGENT, FIXED, required=True),
    Field("gates", MAPPING, required=True),
    Field("correlation", text(100), FIXED),
    Field("job", NUMBER, FIXED, column="job_id"),
    Field("review", OBJECT_ID, FIXED),
    Field("predecessor", OBJECT_ID, FIXED),
    Field("successor", OBJECT_ID),
    Field("rolled_back_at", INSTANT),
    Index("horae_decisions_name", "owner", "decision_id", unique=True),
    CheckConstraint("risk <> 'high' OR outcome <> 'executed'", name="horae_decisions_high_risk"),
    Index("horae_decisions_agent", "owner", "agent", "id"),
    Index("horae_decisions_outcome", "owner", "outcome", "id"),
    info=NEVER_AGAIN,
)
decisions = DECISIONS.table

CITES = Declaration(
    "horae_decision_cites",
    Cite,
    Field("decision", ROW_NUMBER, column="decision_number", required=True),
    Field("object", ROW_NUMBER, column="object_number", required=True),
    Field("owner", NAME, required=True),
    Field("version", COUNT, required=True),
    Field("state", text(40), required=True),
    PrimaryKeyConstraint("decision_number", "object_number"),
    Index("horae_decision_cites_object", "object_number", "decision_number"),
)
cites = CITES.table

REVIEWS = Declaration(
    "horae_reviews",
    Review,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("owner", NAME, FIXED, required=True),
    Field("id", OBJECT_ID, FIXED, column="review_id", required=True),
    Field("kind", text(12), FIXED, required=True),
    Field("opened_at", INSTANT, FIXED, required=True),
    Field("opened_by", NAME, FIXED, required=True),
    Field("deadline", INSTANT, required=True),
    Field("state", text(8), required=True),
    Field("object", NUMBER, FIXED, column="object_number"),
    Field("decision", OBJECT_ID, FIXED, column="decision_id"),
    Field("agent", AGENT, FIXED, required=True),
    Field("automatic", FLAG, FIXED, required=True),
    Field("question", LONG_TEXT),
    Field("job", NUMBER, column="job_id"),
    Field("answer", text(12)),
    Field("answered_at", INSTANT),
    Field("answered_by", NAME),
    Field("note", LONG_TEXT),
    Field("successor", OBJECT_ID),
    Index("horae_reviews_name", "owner", "review_id", unique=True),
    Index("horae_reviews_state", "owner", "state", "id"),
    Index("horae_reviews_due", "state", "deadline"),
    Index("horae_reviews_object", "object_number", "state"),
    info=NEVER_AGAIN,
)
reviews = REVIEWS.table

ROLLBACKS = Declaration(
    "horae_rollbacks",
    Rollback,
    Field("number", ROW_NUMBER, Mark.DRAWN, column="id", primary_key=True, autoincrement=True),
    Field("owner", NAME, FIXED, required=True),
    Field("id", OBJECT_ID, FIXED, column="rollback_id", required=True),
    Field("root", NUMBER, FIXED, column="root_number", required=True),
    Field("started_at", INSTANT, FIXED, required=True),
    Field("actor", NAME, FIXED, required=True),
    Field("agent", AGENT, FIXED, required=True),
    Field("state", text(8), required=True),
    Field("position", NUMBER, column="walked_to", required=True),
    Field("found", COUNT, required=True),
    Field("moved", COUNT, required=True),
    Field("final", COUNT, column="already_final", required=True),
    Field("job", NUMBER, column="job_id"),
    Field("finished_at", INSTANT),
    Index("horae_rollbacks_name", "owner", "rollback_id", unique=True),
    Index("horae_rollbacks_state", "owner", "state", "agent"),
    Index("horae_rollbacks_root", "root_number"),
    info=NEVER_AGAIN,
)
rollbacks = ROLLBACKS.table
