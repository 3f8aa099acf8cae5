// Where setup.sh installs what these scripts use.
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const ENV = process.env.TPTRACE_CLIENTS_ENV ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '.env');
