// The page begins: its styles, what it keeps, who is signed in, then the frame.

import { render } from "preact";
import { ApiError } from "./api/client";
import { forgetPassagesOfOthers } from "./api/passages";
import { App } from "./App";
import { listenForKeys } from "./ask/keys";
import { takeHandover } from "./embed/handover";
import { applyAppearance } from "./state/appearance";
import { askAgainAfterSignIn } from "./state/asking";
import { askCarried, rememberReader } from "./state/carried";
import { keepSessions } from "./state/sessions";
import { followTenant, loadSession } from "./state/signing";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/ui.css";
import "./styles/frame.css";
import "./styles/ask.css";
import "./styles/answer.css";
import "./styles/print.css";
import { Unreachable } from "./views/Unreachable";

const root = document.getElementById("app")!;

applyAppearance();
keepSessions();
forgetPassagesOfOthers();
askAgainAfterSignIn();
followTenant();
rememberReader();
listenForKeys();
takeHandover();
void begin();

async function begin(): Promise<void> {
  render(<App />, root);
  try {
    await loadSession();
    askCarried();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    render(<Unreachable onRetry={() => void begin()} />, root);
  }
}
