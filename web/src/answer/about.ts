// What the question of an answer was about.

import { createContext } from "preact";
import type { Selection } from "../state/selection";

/** The selected text that the question was about; null where it was about all pages. */
export const About = createContext<Selection | null>(null);
