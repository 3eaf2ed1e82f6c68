// What the server answers. docs/http.md describes every field.

export type Status = "answered" | "not_found" | "needs_more_context" | "clarify" | "refused" | "unavailable";
export type Outcome = "told" | "closest" | "none";
export type Verification = "exact" | "fuzzy" | "swapped" | "ocr";
export type Verdict = "helpful" | "not_helpful" | "wrong_citation" | "missing";

export interface Location {
  title: string;
  url: string;
  space: string;
}

export interface Citation {
  index: number;
  chunk_id: string;
  page_id?: string;
  title: string;
  heading_path: string[];
  url: string;
  fragment_url: string;
  quote: string;
  space: string;
  source?: string;
  page_version: number;
  updated_at?: string | null;
  page?: number | null;
  page_label?: string | null;
  /** How sure OCR was of the quote, 0 to 100; null: no OCR read it. */
  ocr_confidence?: number | null;
  verification: Verification;
  start: number;
  end: number;
  also_at?: Location[];
}

export interface ClarificationOption {
  label: string;
  category: string | null;
  query: string | null;
  url: string | null;
  kind?: string | null;
}

export interface Clarification {
  text: string;
  options: ClarificationOption[];
}

export interface Refusal {
  gate: string;
  reason: string;
  value: number | null;
  threshold: number | null;
  best: { sentence: string; chunk_id: string; title: string; url: string; reason: string } | null;
}

export interface Reason {
  code: string;
  words?: string[];
  rank?: number;
}

export interface WhyPassage {
  index: number | null;
  passage: number;
  chunk_id: string;
  page_id: string;
  title: string;
  heading_path: string[];
  space: string;
  cited: boolean;
  scores: Record<string, number>;
  reasons: Reason[];
  why: string;
}

export interface LeftOut {
  chunk_id: string;
  page_id: string;
  title: string;
  heading_path: string[];
  reason: string;
  why: string;
}

export interface Why {
  passages: WhyPassage[];
  left_out: LeftOut[];
  flags: { flag: string; text: string }[];
}

export interface Answer {
  status: Status;
  outcome: Outcome;
  confidence: number | null;
  threshold: number | null;
  answer: string;
  citations: Citation[];
  clarification: Clarification | null;
  refusal: Refusal | null;
  understood?: string | null;
  generation: string;
  generator: string;
  reranker: string;
  receipt_id: string | null;
  timings_ms: Record<string, number>;
  flags: string[];
  notes?: string[];
  why?: Why;
  set?: SetAnswer;
}

export interface SetMember {
  title: string;
  url: string;
  quote: string;
  citation: number | null;
  cells: Record<string, string>;
}

export interface SetAnswer {
  total: number;
  columns: string[];
  members: SetMember[];
  groups: { name: string; count: number; value: string | null }[];
}

export interface Session {
  signed_in: boolean;
  auth: "loopback" | "tokens" | "jwt";
  oidc: { label: string } | null;
  user: string | null;
  tenant: string | null;
  tenants: string[];
  roles: string[];
  csrf: string | null;
  expires_at: string | null;
  limits: { question_chars: number; selection_chars: number; document_bytes?: number };
  features: { feedback: boolean; documents: boolean; notices: boolean; connect: boolean };
}

export interface FilterChoices {
  spaces: { key: string; count: number }[];
  labels: { name: string; count: number }[];
  sources: { key: string }[];
  kinds: { kind: string; count: number }[];
  /** Questions that can be asked. */
  examples?: string[];
}

export type Filters = Partial<Record<"space" | "labels" | "source" | "kind", string[]>>;

export interface Run {
  start: number;
  end: number;
  style: "strong" | "em" | "code" | "link";
  href?: string;
}

export interface Block {
  kind: "paragraph" | "list" | "table" | "code" | "heading";
  start: number;
  end: number;
  depth?: number;
  ordered?: boolean;
  language?: string;
  items?: [number, number, number][];
  rows?: { header: boolean; cells: [number, number][] }[];
  /** The number that an ordered list begins with. */
  number?: number;
  /** The head of a table that another passage has. */
  header?: string[];
  runs?: Run[];
  /** Marks of runs, which are not shown. */
  hidden?: [number, number][];
}

export interface Chunk {
  chunk_id: string;
  text: string;
  content_type: string;
  boilerplate: boolean;
  blocks: Block[];
  /** Of a paged document: [offset in the text, page] where each page begins. */
  pages?: [number, number][];
  missing: { text: string; title: string; url: string; page_id: string; chunk_id: string } | null;
}

export interface PageSection {
  anchor: string;
  url: string;
  heading_path: string[];
  heading: string;
  level: number;
  chunks: Chunk[];
}

export interface SourcePage {
  page_id: string;
  title: string;
  url: string;
  space: string;
  source: string;
  kind: string;
  media: "text" | "pdf";
  page_count: number | null;
  version: number;
  updated_at: string | null;
  labels: string[];
  generation: string;
  sections: PageSection[];
}

export interface Passage {
  chunk: Chunk;
  page: Pick<SourcePage, "page_id" | "title" | "url" | "space" | "source" | "version" | "updated_at" | "labels" | "media">;
  heading_path: string[];
  anchor: string;
  url: string;
  page_number: number | null;
  before: string;
  after: string;
  also_at: Location[];
}

export type Box = [number, number, number, number];

export interface PageLayer {
  page: number;
  label: string;
  width: number;
  height: number;
  words: [number, number, number, number, string][];
  boxes: Box[];
}

export interface Receipt {
  version: number;
  tenant: string;
  created_at: string;
  generation: string;
  question: string | null;
  filters: Record<string, unknown>;
  status: Status;
  outcome: Outcome;
  confidence: number | null;
  threshold: number | null;
  reason: string | null;
  answer: string;
  generator: string;
  passages: { index: number; chunk_id: string; page_id: string; page_version: number; text_hash: string }[];
  citations: Citation[];
  flags: string[];
  timings_ms: Record<string, number>;
}

export interface Check {
  name: string;
  ok: boolean;
  detail: string;
  index?: number;
}

export interface Proof {
  receipt_id: string;
  valid: boolean;
  faults: string[];
  changes: string[];
  /** What is proved of each quote of a paged document, in a line each. */
  proved?: string[];
  checks: Check[];
  generation: string;
  published_generation: string | null;
  ms: number;
}

export interface DocumentVersion {
  version: number;
  sha256: string;
  uploaded_at: string;
  uploaded_by?: string | null;
}

export interface UploadedDocument {
  document_id: string;
  name: string;
  media_type: string;
  bytes: number;
  sha256: string;
  version: number;
  versions: DocumentVersion[];
  status: "received" | "extracting" | "chunking" | "embedding" | "published" | "failed" | "excluded" | "deleting";
  progress: { page: number; of: number } | { embedded: number; of: number } | null;
  reason: string | null;
  readers: string;
  uploaded_at: string;
  page_id: string | null;
}

export interface DocumentList {
  documents: UploadedDocument[];
  readers: { value: string; label: string }[];
  accepts: string[];
  max_bytes: number;
  /** Where documents can be put; none: nowhere. */
  sources?: string[];
}

export interface ServerStatus {
  tenant: string;
  version: string;
  generation: { id: string; published_at: string | null; chunks: number; pages: number } | null;
  sources: {
    key: string;
    kind: string | null;
    pages: number;
    last_sync: string | null;
    newest_page: string | null;
    overdue: boolean | null;
    /** How far its first sync is. */
    sync: { step: string; done?: number; total?: number; error?: string } | null;
  }[];
  phase: { enabled: boolean; phase: number };
  features: Record<string, boolean>;
  breakers: { name: string; state: string }[];
  degraded: string[];
  models: { embedder: string | null; generator: string | null; reranker: string | null };
  streams: number;
}

/** What a test of a source shows, and the change of the configuration that would connect it. */
export interface TestedSource {
  key: string;
  state: "ok" | "warn" | "fail";
  detail: string;
  mend: string;
  extent: { pages: number; readers: string; listed: number; restricted: number; minutes: number; megabytes: number } | null;
  diff: string;
  digest: string;
}

export type ClaimVerdict = "verbatim" | "otherwise" | "closest" | "absent";

export interface CheckedClaim {
  text: string;
  verdict: ClaimVerdict;
  citation?: Citation;
  page_says?: string;
}

export interface CheckedText {
  claims: (CheckedClaim | { verdict: "no_claim" })[];
  flags: string[];
}

export interface Turn {
  role: "user" | "assistant";
  content: string;
}
