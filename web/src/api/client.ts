// Requests to the server: credentials, cross-site protection, errors in one shape.

import { session, signedOut } from "../state/session";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly retryAfter: number | null = null,
  ) {
    super(message);
  }
}

export interface Options {
  method?: "GET" | "POST" | "DELETE";
  body?: unknown;
  signal?: AbortSignal;
}

/** Send a request and return the response, whatever it holds. Throws ApiError for everything but success. */
export async function send(path: string, { method = "GET", body, signal }: Options = {}): Promise<Response> {
  const headers: Record<string, string> = {};
  if (body !== undefined && !(body instanceof FormData)) headers["content-type"] = "application/json";
  const csrf = session.value?.csrf;
  if (csrf && method !== "GET") headers["x-citelock-csrf"] = csrf;
  let response: Response;
  try {
    response = await fetch(withTenant(path), {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "OFFLINE", "");
  }
  if (response.ok) return response;
  const failure = await failureOf(response);
  if (failure.status === 401 && path !== "/v1/session") signedOut();
  throw failure;
}

/** Send a request and return the JSON of its response. */
export async function load<T>(path: string, options?: Options): Promise<T> {
  return (await send(path, options)).json() as Promise<T>;
}

/** Return the path with the tenant that was chosen, where the server knows several and asks nobody who they are. */
export function withTenant(path: string): string {
  const current = session.value;
  if (!current?.tenants.length || !current.tenant) return path;
  return `${path}${path.includes("?") ? "&" : "?"}tenant=${encodeURIComponent(current.tenant)}`;
}

async function failureOf(response: Response): Promise<ApiError> {
  const wait = Number(response.headers.get("retry-after") ?? NaN);
  const seconds = Number.isFinite(wait) ? wait : null;
  try {
    const body = (await response.json()) as { code?: string; message?: string; retry_after?: number };
    return new ApiError(response.status, body.code ?? "ERROR", body.message ?? "", body.retry_after ?? seconds);
  } catch {
    return new ApiError(response.status, `HTTP_${response.status}`, "", seconds);
  }
}
