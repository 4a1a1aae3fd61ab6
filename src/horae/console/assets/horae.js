// A client for users' scheduled tasks, for web pages: one module, no dependencies. Types: horae.d.ts.
//
//   import { Horae } from "https://horae.example/console/assets/horae.js";
//   const horae = new Horae({ url: "https://horae.example", token: () => session.token });
//   const task = await horae.tasks.create({ name: "stand-up", schedule_expr: "0 9 * * 1-5", timezone: "Asia/Shanghai" });
//
// It sends the token that its caller gives, never a cookie. From another origin the service answers only where
// HORAE_CORS_ORIGINS names that origin.

/** @typedef {import("./horae.js").Options} Options */
/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */
/** @typedef {{ query?: Query, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal }} Call */

/** Random text for an idempotency key; `crypto.randomUUID` is missing on pages without TLS. */
function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** @param {unknown} value @returns {Record<string, any>} */
function objectOf(value) {
  return typeof value === "object" && value !== null ? value : {};
}

/** What the service refused, or that it could not be reached (status 0). */
export class HoraeError extends Error {
  /** @param {number} status @param {unknown} problem @param {string | null} [requestId] */
  constructor(status, problem, requestId = null) {
    const told = objectOf(problem);
    super(String(told.detail ?? told.title ?? `The service answered with ${status}.`));
    this.name = "HoraeError";
    this.status = status;
    this.code = String(told.code ?? (status ? "refused" : "unreachable"));
    this.reason = told.reason === undefined ? null : String(told.reason);
    /** @type {Record<string, unknown>} */
    this.facts = objectOf(told.facts);
    this.requestId = requestId;
  }
}

class Transport {
  /** @param {Options} options */
  constructor({ url, token, lang, fetch: send }) {
    this.url = url.replace(/\/+$/, "");
    this.token = token;
    this.lang = lang;
    this.send = send ?? ((/** @type {string} */ address, /** @type {RequestInit} */ init) => fetch(address, init));
  }

  /** @param {string} method @param {string} path @param {Call} call @returns {Promise<any>} */
  async call(method, path, { query = {}, body, headers = {}, signal } = {}) {
    const address = new URL(this.url + path);
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== null) address.searchParams.set(name, String(value));
    }
    const token = typeof this.token === "function" ? await this.token() : this.token;
    const answer = await this.#fetch(address.href, {
      method,
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal,
      headers: {
        Authorization: `Bearer ${token}`,
        Accept: "application/json",
        ...(this.lang ? { "Accept-Language": this.lang } : {}),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    let content = null;
    try {
      content = text ? JSON.parse(text) : null;
    } catch {
      throw new HoraeError(answer.status, { code: "unreadable", detail: "The answer is not JSON; is the address right?" });
    }
    if (!answer.ok) throw new HoraeError(answer.status, content, answer.headers.get("X-Request-Id"));
    return content;
  }

  /** @param {string} address @param {RequestInit} init */
  async #fetch(address, init) {
    try {
      return await this.send(address, init);
    } catch (problem) {
      if (init.signal?.aborted) throw problem;
      throw new HoraeError(0, { detail: `The service cannot be reached, or does not allow this origin: ${problem}` });
    }
  }
}

/** @param {number | undefined} version @returns {Record<string, string>} */
function ifMatch(version) {
  return version === undefined ? {} : { "If-Match": `"${version}"` };
}

/** @param {string} id */
function at(id) {
  return `/scheduled-tasks/${encodeURIComponent(id)}`;
}

class Tasks {
  #transport;

  /** @param {Transport} transport */
  constructor(transport) {
    this.#transport = transport;
  }

  /** @param {import("./horae.js").PageOptions} options */
  list({ signal, ...query } = {}) {
    return this.#transport.call("GET", "/scheduled-tasks", { query, signal });
  }

  /** @param {import("./horae.js").Common} options */
  async *each({ signal } = {}) {
    /** @type {string | undefined} */
    let cursor;
    do {
      /** @type {import("./horae.js").Page<import("./horae.js").ScheduledTask>} */
      const page = await this.list({ cursor, signal });
      yield* page.items;
      cursor = page.next_cursor ?? undefined;
    } while (cursor);
  }

  /** @param {import("./horae.js").TaskTerms} terms @param {import("./horae.js").CreateOptions} options */
  create(terms, { key = randomKey(), signal } = {}) {
    return this.#transport.call("POST", "/scheduled-tasks", { body: terms, headers: { "Idempotency-Key": key }, signal });
  }

  /** @param {string} id @param {import("./horae.js").Common} options */
  get(id, { signal } = {}) {
    return this.#transport.call("GET", at(id), { signal });
  }

  /** @param {string} id @param {import("./horae.js").TaskTerms} terms @param {import("./horae.js").VersionOptions} options */
  update(id, terms, { version, signal } = {}) {
    return this.#transport.call("PUT", at(id), { body: terms, headers: ifMatch(version), signal });
  }

  /** @param {string} id @param {import("./horae.js").VersionOptions} options */
  async delete(id, { version, signal } = {}) {
    await this.#transport.call("DELETE", at(id), { headers: ifMatch(version), signal });
  }

  /** @param {string} id @param {import("./horae.js").PageOptions} options */
  runs(id, { signal, ...query } = {}) {
    return this.#transport.call("GET", `${at(id)}/runs`, { query, signal });
  }

  /** @param {string} id @param {import("./horae.js").TriggerOptions} options */
  trigger(id, { payload, reason, signal } = {}) {
    return this.#transport.call("POST", `${at(id)}/trigger`, { body: { payload, reason }, signal });
  }

  /** @param {string | import("./horae.js").TaskTerms} idOrTerms @param {import("./horae.js").PreviewOptions} options */
  preview(idOrTerms, { signal, ...query } = {}) {
    if (typeof idOrTerms === "string") return this.#transport.call("GET", `${at(idOrTerms)}/preview`, { query, signal });
    return this.#transport.call("POST", "/scheduled-tasks/preview", { query, body: idOrTerms, signal });
  }

  /** @param {import("./horae.js").Common} options */
  limits({ signal } = {}) {
    return this.#transport.call("GET", "/scheduled-tasks/limits", { signal });
  }
}

export class Horae {
  /** @param {Options} options */
  constructor(options) {
    this.tasks = new Tasks(new Transport(options));
  }
}

// What horae.d.ts promises is what is here; TypeScript compares the two.
/** @type {typeof import("./horae.js").Horae} */
const promised = Horae;
/** @type {typeof import("./horae.js").HoraeError} */
const promisedError = HoraeError;
void [promised, promisedError];
